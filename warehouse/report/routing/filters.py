"""Jinja filters of the routing sections."""

from collections.abc import Callable

from cachemend.warehouse.report.formats import number, signed
from cachemend.warehouse.report.routing.names import (
    ablation_label,
    arm_label,
    method_label,
    setting_label,
    signal_label,
)
from cachemend.warehouse.report.routing.quality import region_label


def share(value: float | None, digits: int = 1) -> str:
    """Return a fraction in percent, without the sign."""
    return number(None if value is None else 100 * value, digits)


def points(value: float | None, digits: int = 2) -> str:
    """Return a difference of fractions in percentage points, with its sign."""
    return signed(None if value is None else 100 * value, digits)


FILTERS: dict[str, Callable[..., str]] = {
    "share": share,
    "points": points,
    "arm": arm_label,
    "method": method_label,
    "setting": setting_label,
    "signal": signal_label,
    "ablation": ablation_label,
    "region": region_label,
}
