"""A fixed table that says how to repair an edit, from what is known before the repair; versioned JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from cachemend.repair_core import ENGINE_VERSION
from cachemend.repair_core.decision_rules import STRICT, Action, Rule, require_type
from cachemend.repair_core.errors import InputError
from cachemend.repair_core.features import FEATURES, EditFeatures

VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Derivation:
    """The cohort a table was derived from, and how many of its items."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    cohort_digest: str
    n_items: int

    def __post_init__(self) -> None:
        require_type("cohort_digest", self.cohort_digest, str)
        if not isinstance(self.n_items, int) or isinstance(self.n_items, bool) or self.n_items < 0:
            raise InputError(f"n_items {self.n_items!r} is no number of items; give 0 or more")


@dataclass(frozen=True, kw_only=True)
class DecisionTable:
    """How to repair an in-place edit, decided by features that are known at serving time.

    Attributes:
        version: version of this format.
        engine_version: the engine whose repairs were measured; another one needs a new table.
        model: name of the model they were measured on.
        fingerprint: of its weights; the table is then used with no other. None: with any.
        derived_from: where the evidence comes from.
        features: the names of the features, in order.
        rules: tried in order; the first whose features match decides.
        otherwise: what to do where none does.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    version: int = VERSION
    engine_version: int = ENGINE_VERSION
    model: str
    fingerprint: str | None
    derived_from: Derivation
    features: tuple[str, ...] = FEATURES
    rules: tuple[Rule, ...]
    otherwise: Action

    def __post_init__(self) -> None:
        for name in ("features", "rules"):
            require_type(name, getattr(self, name), Sequence)
            object.__setattr__(self, name, tuple(getattr(self, name)))
        _check_header(self.version, self.engine_version, self.features)
        require_type("model", self.model, str)
        if self.fingerprint is not None:
            require_type("fingerprint", self.fingerprint, str)
        require_type("derived_from", self.derived_from, Derivation)
        for number, rule in enumerate(self.rules):
            require_type(f"rules[{number}]", rule, Rule)
        require_type("otherwise", self.otherwise, Action)

    def decide(self, features: EditFeatures) -> Action:
        """What the first matching rule says."""
        return next((rule.do for rule in self.rules if rule.when.matches(features)), self.otherwise)

    def to_json(self) -> str:
        """The table as JSON; features that a rule does not ask for are left out."""
        stated = asdict(self)
        for rule in stated["rules"]:
            rule["when"] = {name: value for name, value in rule["when"].items() if value is not None}
        return json.dumps(stated, indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "DecisionTable":
        """Read a table from JSON text.

        Raises:
            InputError: no JSON, a field missing, unknown or of another type, another version or engine version.
        """
        try:
            # Another version may have other fields: it is told before they are looked at.
            TypeAdapter(_Header).validate_json(text)
            return TypeAdapter(cls).validate_json(text)
        except ValidationError as error:
            raise InputError(f"decision table cannot be read: {_first(error)}") from error

    @classmethod
    def load(cls, path: str | Path) -> "DecisionTable":
        """Read a table from a JSON file, UTF-8 with or without a byte order mark.

        Raises:
            InputError: no path, no such file, no text, or as `from_json`.
        """
        try:
            text = Path(path).read_text(encoding="utf-8-sig")
        except TypeError as error:
            raise InputError(f"decision table {path!r} is no path; give that of a JSON file") from error
        except UnicodeDecodeError as error:
            raise InputError(
                f"decision table {str(path)!r} cannot be read (it is no UTF-8 text); give a JSON file"
            ) from error
        except (OSError, ValueError) as error:
            # A ValueError: the system takes no such path, e.g. one with a null character.
            reason = getattr(error, "strerror", None) or str(error)
            raise InputError(f"decision table {str(path)!r} cannot be read ({reason}); give a JSON file") from error
        return cls.from_json(text)


@dataclass(frozen=True, kw_only=True)
class _Header:
    """What every version of the format has."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(strict=True, extra="ignore")
    version: int
    engine_version: int
    features: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_header(self.version, self.engine_version, self.features)


def _check_header(version: int, engine_version: int, features: tuple[str, ...]) -> None:
    if version != VERSION:
        raise InputError(f"decision table has version {version}; this release reads version {VERSION}")
    if engine_version != ENGINE_VERSION:
        raise InputError(
            f"decision table was measured with engine version {engine_version}, this is {ENGINE_VERSION}; "
            "derive it anew"
        )
    if features != FEATURES:
        raise InputError(f"decision table has features {list(features)}; this release reads {list(FEATURES)}")


def _first(error: ValidationError) -> str:
    """The first of pydantic's complaints, in one line."""
    first = error.errors(include_url=False)[0]
    where = ".".join(map(str, first["loc"]))
    what = str(first["msg"]).removeprefix("Value error, ")
    return " ".join((f"{where}: {what}" if where else what).split())
