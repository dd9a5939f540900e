"""What each arm measured, with intervals: the numbers behind the figures and the table of all arms."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import methodcaller
from statistics import fmean, median
from typing import Any, NamedTuple

from cachemend.calibration import Interval, bootstrap_mean
from cachemend.warehouse.report.labels import ArmKey
from cachemend.warehouse.report.rows import INVARIANTS, STAGES, Row
from cachemend.warehouse.report.strata import Stratum
from cachemend.warehouse.report.sweep import Cell, cell_of


class ArmSummary(NamedTuple):
    """One arm over a stratum. All but `cell` and `em` are over its successful rows that hold the value.

    Attributes:
        cell: the counts behind `em`.
        em: percent, every recorded case counted; a failed one is wrong.
        gold_nll: mean nats per token of the gold answer.
        tv: mean total variation of the first token against Re-prefill.
        nr_tv: median over the `n_nr_tv` cases where it is defined.
        leakage: mean nats per token by which the deleted value is likelier than under the clean cache.
        n_intervals, positions, token_layers, causal_pairs: means.
        seconds: median of each stage that was measured.
    """

    arm: ArmKey
    cell: Cell
    em: Interval
    gold_nll: Interval | None
    tv: Interval | None
    nr_tv: float | None
    n_nr_tv: int
    leakage: Interval | None
    n_intervals: float | None
    positions: float | None
    token_layers: float | None
    causal_pairs: float | None
    seconds: Mapping[str, float]


class InvariantCount(NamedTuple):
    """How often an invariant of sparse refresh held, was broken, or was not recorded."""

    name: str
    held: int
    broken: int
    unknown: int


def summarise(stratum: Stratum) -> list[ArmSummary]:
    """Summarise every arm of a stratum, in display order."""
    return [_summary(arm, rows, stratum.n_of) for arm, rows in stratum.arms.items()]


def _summary(arm: ArmKey, rows: Sequence[Row], n_of: int) -> ArmSummary:
    cell = cell_of(rows, n_of)
    assert cell is not None, "an arm of a stratum has at least one row"
    ok = [row for row in rows if row.ok]
    ratios = _values(ok, lambda row: row.nr_tv)
    timed = {stage: _values(ok, methodcaller("seconds", stage)) for stage in STAGES}
    return ArmSummary(
        arm=arm,
        cell=cell,
        em=bootstrap_mean([100 * row.correct for row in rows]),
        gold_nll=_interval(_values(ok, lambda row: row.gold_nll)),
        tv=_interval(_values(ok, lambda row: row.tv_to_clean)),
        nr_tv=median(ratios) if ratios else None,
        n_nr_tv=len(ratios),
        leakage=_interval(_values(ok, lambda row: row.leakage)),
        n_intervals=_mean(ok, lambda row: row.n_intervals),
        positions=_mean(ok, lambda row: row.positions_budget),
        token_layers=_mean(ok, lambda row: row.token_layers),
        causal_pairs=_mean(ok, lambda row: row.causal_pairs),
        seconds={stage: median(values) for stage, values in timed.items() if values},
    )


def prefill_seconds(rows: Iterable[Row]) -> float | None:
    """Return the median prefill of the original context, seconds; it is recorded with Dirty, which uses it as is."""
    values = _values((row for row in rows if row.ok and row.allocator == "dirty"), lambda row: row.t_prefill)
    return median(values) if values else None


def invariants(rows: Iterable[Any], names: Sequence[str] = INVARIANTS) -> list[InvariantCount]:
    """Count invariants, columns of the rows, over the rows of sparse arms, failed rows included."""
    sparse = [row for row in rows if not row.arm.is_reference]
    counts = []
    for name in names:
        states = [getattr(row, name) for row in sparse]
        counts.append(InvariantCount(name, states.count(True), states.count(False), states.count(None)))
    return counts


def _values(rows: Iterable[Row], value: Callable[[Row], float | None]) -> list[float]:
    return [found for row in rows if (found := value(row)) is not None]


def _mean(rows: Iterable[Row], value: Callable[[Row], float | None]) -> float | None:
    values = _values(rows, value)
    return fmean(values) if values else None


def _interval(values: Sequence[float]) -> Interval | None:
    return bootstrap_mean(values) if values else None
