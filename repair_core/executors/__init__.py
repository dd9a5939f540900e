"""The four executors, a control and what is still experimental, by name."""

from cachemend.repair_core.errors import InputError, nearest
from cachemend.repair_core.executors.backends import DEFAULT, check_attention_name
from cachemend.repair_core.executors.base import Executor
from cachemend.repair_core.executors.bottom_right import BottomRightExecutor
from cachemend.repair_core.executors.direct import DirectExecutor
from cachemend.repair_core.executors.graphed import FusedGraphExecutor, GraphExecutor
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
# Only by name, and in no list: they need a CUDA device and have not run on one.
EXPERIMENTAL: dict[str, type[PackedExecutor]] = {
    "packed-graph": GraphExecutor,
    "packed-graph-fused": FusedGraphExecutor,
}
REPAIRING = tuple(name for name, executor in EXECUTORS.items() if executor.repairs)


def get_executor(name: str, n_intervals: int, attention: str = DEFAULT) -> Executor:
    """Return the executor called `name`; "auto" is direct for one interval, packed for more or with a named backend.

    Args:
        name: of the executor.
        n_intervals: how many intervals it is to recompute.
        attention: backend of the packed executor; the others use the model's own attention. "auto" therefore takes
            the packed one wherever this is not the default.

    Raises:
        InputError: unknown name, or a backend for an executor that has none.
    """
    check_attention_name(attention)
    if name == "auto":
        name = "direct" if n_intervals <= 1 and attention == DEFAULT else "packed"
    if name in EXPERIMENTAL:
        return EXPERIMENTAL[name](attention)
    if name not in EXECUTORS:
        raise InputError(f"executor {name!r} is unknown; {nearest(name, [*EXECUTORS, 'auto'])}")
    kind = EXECUTORS[name]
    if issubclass(kind, PackedExecutor):
        return kind(attention)
    if attention != DEFAULT:
        raise InputError(f"attention backend {attention!r} is one of the packed executor; executor {name!r} has none")
    return kind()


def require_repairing(name: str, attention: str = DEFAULT) -> None:
    """Raise InputError unless `name` is "auto" or an executor that repairs and takes this attention backend."""
    if not get_executor(name, 1, attention).repairs:
        raise InputError(f"executor {name!r} repairs nothing; {nearest(name, [*REPAIRING, 'auto'])}")


__all__ = ["EXECUTORS", "EXPERIMENTAL", "REPAIRING", "Executor", "get_executor", "require_repairing"]
