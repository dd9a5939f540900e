"""The seven thresholds of a routing policy (paper section 3.4)."""

from math import inf
from typing import NamedTuple

from cachemend.calibration.errors import CalibrationError


class Thresholds(NamedTuple):
    """A policy, the paper's Theta. An infinite similarity threshold turns its region off.

    Attributes:
        tau_r: least query similarity for direct reuse.
        delta_r: greatest risk for direct reuse.
        upsilon_r: greatest uncertainty for direct reuse.
        tau_v: least query similarity for verification, without a conflict.
        tau_v_conflict: the same with a conflict.
        delta_v: greatest risk for verification.
        upsilon_v: greatest uncertainty for verification.
    """

    tau_r: float
    delta_r: float
    upsilon_r: float
    tau_v: float
    tau_v_conflict: float
    delta_v: float
    upsilon_v: float


NO_REUSE = (inf, 0.0, 0.0)
"""``tau_r, delta_r, upsilon_r`` of a policy without direct reuse."""

NO_VERIFICATION = (inf, inf, 0.0, 0.0)
"""``tau_v, tau_v_conflict, delta_v, upsilon_v`` of a policy without verification."""

REGENERATE_ALL = Thresholds(*NO_REUSE, *NO_VERIFICATION)
"""The policy that returns no cached response."""


def check_thresholds(limits: Thresholds) -> None:
    """Refuse thresholds that no calibration would give.

    Raises:
        CalibrationError: a value out of range, or verification that is stricter than direct reuse, or than
            verification despite a conflict; the line names the field.
    """
    for name, value in limits._asdict().items():
        if not (name.startswith("tau") and value == inf):
            check_range(f"thresholds.{name}", value, 0, 1)
    if limits.tau_v_conflict < limits.tau_v:
        raise CalibrationError(
            f"field thresholds.tau_v_conflict is {limits.tau_v_conflict}, below tau_v {limits.tau_v}"
        )
    if limits.tau_r == inf or limits.tau_v == inf:
        return
    stricter = {
        "tau_v": limits.tau_v > limits.tau_r,
        "delta_v": limits.delta_v < limits.delta_r,
        "upsilon_v": limits.upsilon_v < limits.upsilon_r,
    }
    for name in filter(stricter.get, stricter):
        raise CalibrationError(f"field thresholds.{name} makes verification stricter than direct reuse")


def check_range(name: str, value: float, low: float, high: float) -> None:
    """Refuse a field outside ``low`` to ``high``, or that is not a number.

    Raises:
        CalibrationError: it is; the line names the field.
    """
    if not low <= value <= high:
        raise CalibrationError(f"field {name} is {value}; it must be from {low} to {high}")
