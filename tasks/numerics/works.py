"""The three numerical controls as kinds of work on Erasing-NIAH cases."""

from collections.abc import Callable, Sequence
from typing import Any

from cachemend.datasets.niah import build_niah
from cachemend.datasets.niah_case import NiahCase
from cachemend.tasks import niah_work
from cachemend.tasks.numerics.arms import EXPERIMENT, PathArm
from cachemend.tasks.numerics.bounding import bound_case
from cachemend.tasks.numerics.probing import probe_case
from cachemend.tasks.numerics.repeating import cells_of, failed_cells, repeat_case
from cachemend.tasks.work import Measured, Place, Work, one_row


def _repeat(place: Place, case: NiahCase, arms: Sequence[PathArm]) -> list[Measured]:
    return repeat_case(place.loaded, case, arms, place.spec.attention, place.spec.max_new_tokens)


def _probe(place: Place, case: NiahCase, arms: Sequence[PathArm]) -> list[Measured]:
    return probe_case(place.loaded, case, arms, place.spec.attention)


def _bound(place: Place, case: NiahCase, arms: Sequence[PathArm]) -> list[Measured]:
    return bound_case(place.loaded, case, arms, place.spec.attention)


def _repeat_failed(case: NiahCase, arm: PathArm, outcome: str, error: str) -> list[Measured]:  # noqa: ARG001
    return failed_cells(arm, outcome, error)


def _failed(case: NiahCase, arm: PathArm, outcome: str, error: str) -> list[Measured]:  # noqa: ARG001
    return [Measured(arm, {"outcome": outcome, "error": error})]


def _repeat_cells(case: NiahCase, arm: PathArm) -> list[dict[str, Any]]:  # noqa: ARG001
    return cells_of(arm)


def _work(
    name: str,
    table: str,
    run: Callable[..., list[Measured]],
    failed: Callable[..., list[Measured]] = _failed,
    cells: Callable[..., Sequence[dict[str, Any]]] = one_row,
) -> Work:
    return Work(
        name=name,
        experiment=EXPERIMENT,
        case_type=NiahCase,
        table=table,
        timed_stages=(),
        seeds={},
        build=build_niah,
        tokens=niah_work.WORK.tokens,
        facts=niah_work.WORK.facts,
        run=run,
        failed=failed,
        cells=cells,
    )


REPEATS = _work("numerical-repeats", "repeat_records", _repeat, _repeat_failed, _repeat_cells)
PROBES = _work("executor-probes", "probe_records", _probe)
BOUND = _work("residual-bound", "bound_records", _bound)
