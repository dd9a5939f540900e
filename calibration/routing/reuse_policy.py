"""A calibrated policy: all that serving needs to decide as calibrated."""

import re
from dataclasses import dataclass, fields
from math import inf
from typing import Any, NamedTuple

from cachemend.calibration.errors import CalibrationError
from cachemend.calibration.routing.json_fields import checked_fields
from cachemend.calibration.routing.policy import Thresholds, check_range, check_thresholds
from cachemend.calibration.routing.risk_map import RiskMap
from cachemend.calibration.routing.selection import Selection

VERSION = 2


class CalibrationCounts(NamedTuple):
    """What the policy did on the subset it was chosen on; the fields of `Selection` without the thresholds."""

    n: int
    valid: int
    invalid: int
    calls: int
    demand: int
    policies: int
    feasible: int

    @classmethod
    def of(cls, selection: Selection) -> "CalibrationCounts":
        """The counts of a selection."""
        return cls(*selection[1:])


@dataclass(frozen=True, kw_only=True)
class ReusePolicy:
    """Thresholds, risk map, and what they were made with.

    Attributes:
        lexicon_version, lexicon_digest: the lexicon that conditions were extracted with; SHA-256 in hex.
        extractor_version: of the rules that made conditions and conflicts of texts; `conditions.EXTRACTOR_VERSION`.
        encoder: name of the query encoder.
        alpha: accepted-unsafe rate it was chosen under.
        budget: verifier calls per candidate it was chosen under.
        thresholds: the policy; an infinite similarity threshold turns its region off.
        risk_map: of the development subset.
        own_guards: whether the guards that the paper does not have count as conflicts.
        calibration: counts on the calibration subset.
        selected_by: how it was chosen, in words.
        version: of this format.

    Raises:
        CalibrationError: a value out of range, thresholds under which verification is stricter than direct reuse, or
            a risk map fitted on one kind of label.
    """

    lexicon_version: str
    lexicon_digest: str
    extractor_version: int
    encoder: str
    alpha: float
    budget: float
    thresholds: Thresholds
    risk_map: RiskMap
    own_guards: bool
    calibration: CalibrationCounts
    selected_by: str
    version: int = VERSION

    def __post_init__(self) -> None:
        if self.version != VERSION:
            raise CalibrationError(f"field version is {self.version}; this release reads version {VERSION}")
        if not re.fullmatch("[0-9a-f]{64}", self.lexicon_digest):
            raise CalibrationError("field lexicon_digest is no SHA-256 in lower-case hex")
        for name in ("lexicon_version", "encoder", "selected_by"):
            if not getattr(self, name).strip():
                raise CalibrationError(f"field {name} is empty")
        for name in ("alpha", "budget"):
            check_range(name, getattr(self, name), 0, 1)
        check_thresholds(self.thresholds)
        n, invalid = (sum(getattr(block, name) for block in self.risk_map.blocks) for name in ("n", "invalid"))
        if invalid in (0, n):
            raise CalibrationError(
                f"field risk_map rests on {n - invalid} valid and {invalid} invalid pairs; both kinds"
            )
        counts = self.calibration
        if min(counts) < 0 or counts.valid + counts.invalid > counts.n or not counts.calls <= counts.demand <= counts.n:
            raise CalibrationError(f"field calibration is {tuple(counts)}; these counts contradict each other")

    def to_dict(self) -> dict[str, Any]:
        """The policy as plain JSON values; a similarity threshold that is off is null."""
        content = {field.name: getattr(self, field.name) for field in fields(self)}
        limits = {name: None if value == inf else value for name, value in self.thresholds._asdict().items()}
        replaced = {
            "thresholds": limits,
            "risk_map": self.risk_map.to_dict(),
            "calibration": self.calibration._asdict(),
        }
        return content | replaced

    @classmethod
    def from_dict(cls, content: object) -> "ReusePolicy":
        """Read what `to_dict` made.

        Raises:
            CalibrationError: another version; fields missing, unknown or of another type; values out of range.
        """
        if isinstance(content, dict) and content.get("version", VERSION) != VERSION:
            raise CalibrationError(f"field version is {content['version']!r}; this release reads version {VERSION}")
        plain = {"thresholds": dict, "risk_map": dict, "calibration": dict}
        types = {field.name: plain.get(field.name, field.type) for field in fields(cls)}
        values = checked_fields("", content, types)  # type: ignore[arg-type]
        values["thresholds"] = _thresholds(values["thresholds"])
        values["risk_map"] = RiskMap.from_dict(values["risk_map"])
        counts = checked_fields("calibration", values["calibration"], CalibrationCounts.__annotations__)
        values["calibration"] = CalibrationCounts(**counts)
        return cls(**values)


def _thresholds(content: object) -> Thresholds:
    if isinstance(content, dict):
        content = {name: inf if value is None and name[:3] == "tau" else value for name, value in content.items()}
    return Thresholds(**checked_fields("thresholds", content, Thresholds.__annotations__))
