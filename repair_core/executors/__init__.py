"""The four executors and a control, by name."""

from cachemend.repair_core.errors import InputError, nearest
from cachemend.repair_core.executors.base import Executor
from cachemend.repair_core.executors.bottom_right import BottomRightExecutor
from cachemend.repair_core.executors.direct import DirectExecutor
from cachemend.repair_core.executors.interval import IntervalExecutor
from cachemend.repair_core.executors.one_shot import OneShotExecutor
from cachemend.repair_core.executors.packed import PackedExecutor

EXECUTORS: dict[str, type[Executor]] = {
    "interval": IntervalExecutor,
    "direct": DirectExecutor,
    "one-shot": OneShotExecutor,
    "packed": PackedExecutor,
    "bottom-right": BottomRightExecutor,
}
REPAIRING = tuple(name for name, executor in EXECUTORS.items() if executor.repairs)


def get_executor(name: str, n_intervals: int) -> Executor:
    """Return the executor called `name`; "auto" is direct for one interval and packed for more.

    Raises:
        InputError: unknown name.
    """
    if name == "auto":
        name = "direct" if n_intervals <= 1 else "packed"
    if name not in EXECUTORS:
        raise InputError(f"executor {name!r} is unknown; {nearest(name, [*EXECUTORS, 'auto'])}")
    return EXECUTORS[name]()


def require_repairing(name: str) -> None:
    """Raise InputError unless `name` is "auto" or an executor that repairs."""
    if not get_executor(name, 1).repairs:
        raise InputError(f"executor {name!r} repairs nothing; {nearest(name, [*REPAIRING, 'auto'])}")


__all__ = ["EXECUTORS", "REPAIRING", "Executor", "get_executor", "require_repairing"]
