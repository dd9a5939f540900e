"""What a line of a decision table says: which features it asks for, what to do then, and on what evidence."""

import math
from dataclasses import dataclass
from typing import ClassVar

from pydantic import ConfigDict

from cachemend.repair_core.errors import InputError, nearest
from cachemend.repair_core.features import FEATURES, NAMED, REACHES, EditFeatures
from cachemend.repair_core.policies import diagnostic_names, get_policy, policy_names

RE_PREFILL = "re-prefill"
# Read from JSON by pydantic: no conversions, no unknown fields.
STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True, kw_only=True)
class Action:
    """What to do with an edit.

    Attributes:
        policy: a deployable edit policy, or "re-prefill".
        k: positions beside the span; None exactly for re-prefill and for policies that set their own length.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    policy: str
    k: int | None = None

    def __post_init__(self) -> None:
        require_type("policy", self.policy, str)
        if self.k is not None and (isinstance(self.k, bool) or not isinstance(self.k, int)):
            raise InputError(f"k={self.k!r} of policy {self.policy!r} is no whole number; give 0 or more positions")
        if self.policy == RE_PREFILL:
            own_length = True
        elif self.policy in policy_names():
            own_length = get_policy(self.policy).own_length
        elif self.policy in diagnostic_names():
            raise InputError(f"policy {self.policy!r} is a diagnostic: it knows the truth and cannot be deployed")
        else:
            raise InputError(
                f"policy {self.policy!r} is unknown; {nearest(self.policy, (*policy_names(), RE_PREFILL))}"
            )
        if own_length and self.k is not None:
            raise InputError(f"policy {self.policy!r} sets its own length; leave out k={self.k}")
        if not own_length and (self.k is None or self.k < 0):
            raise InputError(f"policy {self.policy!r} with k={self.k}; give a number of positions, 0 or more")

    @property
    def arm(self) -> str:
        """The name of the evaluated arm, e.g. "edit-local@32"."""
        return self.policy if self.k is None else f"{self.policy}@{self.k}"

    @classmethod
    def of_arm(cls, arm: str) -> "Action":
        """The action that an arm's name states.

        Raises:
            InputError: no such policy, or a K that is missing, not a whole number or not wanted.
        """
        require_type("arm", arm, str)
        policy, at, k = arm.partition("@")
        if at and not (k.isascii() and k.isdigit()):
            raise InputError(f"arm {arm!r} has no whole number behind the @; write e.g. edit-local@32")
        return cls(policy=policy, k=int(k) if at else None)


@dataclass(frozen=True, kw_only=True)
class When:
    """The features a rule asks for; None where any value will do."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    named: str | None = None
    reach: str | None = None
    query_overlap: bool | None = None

    def __post_init__(self) -> None:
        for name, value, known in (("named", self.named, NAMED), ("reach", self.reach, REACHES)):
            if value is not None and value not in known:
                raise InputError(f"feature {name} cannot be {value!r}; known: {', '.join(known)}")
        if not isinstance(self.query_overlap, bool | None):
            raise InputError(f"feature query_overlap cannot be {self.query_overlap!r}; give True, False or None")
        if all(getattr(self, name) is None for name in FEATURES):
            raise InputError("a rule asks for no feature; what holds for every edit belongs into otherwise")

    def matches(self, features: EditFeatures) -> bool:
        """Whether `features` has every value asked for."""
        return all(getattr(self, name) in (None, getattr(features, name)) for name in FEATURES)


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What a rule was derived from: n cases, their mean recovery and its lower 95 % bound."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    n: int
    mean: float
    low: float

    def __post_init__(self) -> None:
        for name, kind in (("n", int), ("mean", int | float), ("low", int | float)):
            if isinstance(value := getattr(self, name), bool) or not isinstance(value, kind):
                raise InputError(f"{name}={value!r} of the evidence is no number; give n items, their mean and low")
        if self.n < 0 or not (math.isfinite(self.mean) and math.isfinite(self.low)):
            raise InputError(f"evidence of n={self.n}, mean={self.mean}, low={self.low}; give finite numbers, n >= 0")


def require_type(name: str, value: object, kind: type) -> None:
    """Raise InputError unless `value` is of type `kind`; `name` is what it is called."""
    if not isinstance(value, kind):
        raise InputError(f"{name} must be of type {kind.__name__}, not {type(value).__name__}")


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One line of the table."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    when: When
    do: Action
    evidence: Evidence

    def __post_init__(self) -> None:
        for name, kind in (("when", When), ("do", Action), ("evidence", Evidence)):
            require_type(f"{name} of a rule", getattr(self, name), kind)
