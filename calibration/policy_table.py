"""Which arm to use where: a table derived from measured arms of some items, and its test on others.

A cell is a combination of features that are known before a repair. The table gives each cell the cheapest arm that was
shown to be good enough there, and re-prefills where none was.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cachemend.calibration.intervals import REPLICATES, SEED, Interval, paired_bootstrap

RE_PREFILL = "re-prefill"
TARGET = 0.9
MINIMUM = 20


@dataclass(frozen=True, kw_only=True)
class Observations:
    """Measured arms, one entry per case and arm.

    Attributes:
        cases: the case of each entry; an arm has at most one entry per case.
        items: the item each case was made from; cases of one item are resampled together.
        cells: the features of the case; the same in all of its entries.
        arms: the arm that was measured; "re-prefill" is the clean cache.
        tokens: positions it recomputed.
        recovery: what it recovered, 0 for no repair and 1 for the clean cache; finite.

    Raises:
        ValueError: lengths that differ, no entries, a value that is not finite, an arm measured twice on a case, or a
            case in two cells or items.
    """

    cases: Sequence[Hashable]
    items: Sequence[Hashable]
    cells: Sequence[Hashable]
    arms: Sequence[str]
    tokens: Sequence[float]
    recovery: Sequence[float]

    def __post_init__(self) -> None:
        lengths = {name: len(value) for name, value in vars(self).items()}
        if len(set(lengths.values())) > 1 or not lengths["cases"]:
            raise ValueError(f"observations have lengths {lengths}; they must be equal and not 0")
        for name in ("tokens", "recovery"):
            values = np.asarray(getattr(self, name), dtype=np.float64)
            if not np.isfinite(values).all():
                at = int(np.flatnonzero(~np.isfinite(values))[0])
                raise ValueError(
                    f"{name} of {self.arms[at]!r} on {self.cases[at]!r} is {values[at]}; leave it out before"
                )
        homes: dict[Hashable, tuple[Hashable, Hashable]] = {}
        for case, item, cell in zip(self.cases, self.items, self.cells, strict=True):
            if homes.setdefault(case, (item, cell)) != (item, cell):
                raise ValueError(f"case {case!r} is of {homes[case]} and of {(item, cell)}; item and cell must agree")
        if len(self.entries) != len(self.cases):
            raise ValueError(f"{len(self.cases)} observations are of {len(self.entries)} cases and arms; each once")

    @cached_property
    def entries(self) -> dict[tuple[Hashable, str], tuple[float, float]]:
        """Tokens and recovery by case and arm."""
        keys, values = zip(self.cases, self.arms, strict=True), zip(self.tokens, self.recovery, strict=True)
        return {key: (float(tokens), float(recovery)) for key, (tokens, recovery) in zip(keys, values, strict=True)}

    @cached_property
    def members(self) -> dict[Hashable, tuple[Hashable, ...]]:
        """The cases of each cell, in sorted order: results do not hang on the order of entries."""
        out: dict[Hashable, set[Hashable]] = {}
        for case, cell in zip(self.cases, self.cells, strict=True):
            out.setdefault(cell, set()).add(case)
        return {cell: tuple(sorted(out[cell], key=repr)) for cell in sorted(out, key=repr)}

    @cached_property
    def item_of(self) -> dict[Hashable, Hashable]:
        """The item of each case."""
        return dict(zip(self.cases, self.items, strict=True))


class CellChoice(NamedTuple):
    """What the table does in one cell.

    Attributes:
        cell: the features.
        arm: the arm chosen; "re-prefill" where none was shown to be good enough.
        n: cases of the cell.
        mean: mean recovery of the arm there; 1 for re-prefill, by definition.
        low: lower end of its 95 % interval; 1 for re-prefill.
        tokens: mean positions it recomputed; None for a re-prefill that was not measured.
    """

    cell: Hashable
    arm: str
    n: int
    mean: float
    low: float
    tokens: float | None


class ArmResult(NamedTuple):
    """An arm, or the table, on a set of cases.

    Attributes:
        arm: its name; "table" for the table.
        n: cases it was measured on.
        missing: cases it was not measured on; they count in nothing here.
        mean, low, high: mean recovery with its 95 % interval.
        tokens: mean positions recomputed.
        re_prefilled: share of the cases that were re-prefilled.
    """

    arm: str
    n: int
    missing: int
    mean: float
    low: float
    high: float
    tokens: float
    re_prefilled: float


class TableEvaluation(NamedTuple):
    """A table on items that it was not derived from.

    Attributes:
        table: over all cases.
        fixed: every arm used everywhere, on the same cases; by name.
        by_cell: the table in each cell.
    """

    table: ArmResult
    fixed: tuple[ArmResult, ...]
    by_cell: tuple[tuple[Hashable, ArmResult], ...]


def derive_table(
    observations: Observations,
    *,
    target: float = TARGET,
    minimum: int = MINIMUM,
    excluded: Iterable[str] = (),
    replicates: int = REPLICATES,
    seed: int = SEED,
) -> tuple[CellChoice, ...]:
    """Choose per cell the cheapest arm whose recovery is shown to be high enough.

    An arm qualifies in a cell where it was measured on every case, these come from at least `minimum` items, and the
    lower end of the 95 % percentile bootstrap interval of its mean recovery reaches `target`. The cheapest recomputes
    the fewest positions on average; of equal ones, the higher lower end wins, then the name.

    Args:
        observations: of the items to derive from.
        target: the recovery to reach.
        minimum: items that a choice must rest on.
        excluded: arms that are no candidates (references, diagnostics).
        replicates, seed: of the bootstrap.

    Returns:
        One choice per cell, in the order of the cells' representations.
    """
    candidates = sorted(set(observations.arms) - {RE_PREFILL, *excluded})
    return tuple(
        _choice(observations, cell, candidates, target, minimum, replicates, seed) for cell in observations.members
    )


def _choice(
    observations: Observations,
    cell: Hashable,
    candidates: Sequence[str],
    target: float,
    minimum: int,
    replicates: int,
    seed: int,
) -> CellChoice:
    cases = observations.members[cell]
    qualified = []
    if len({observations.item_of[case] for case in cases}) >= minimum:
        for arm in candidates:
            result = _result(observations, arm, [(case, arm) for case in cases], replicates, seed)
            if result is not None and not result.missing and result.low >= target:
                qualified.append((result.tokens, -result.low, arm, result))
    if qualified:
        best = min(qualified)[-1]
        return CellChoice(cell, best.arm, best.n, best.mean, best.low, best.tokens)
    spent = [observations.entries[case, RE_PREFILL][0] for case in cases if (case, RE_PREFILL) in observations.entries]
    return CellChoice(cell, RE_PREFILL, len(cases), 1.0, 1.0, float(np.mean(spent)) if spent else None)


def evaluate_table(
    choices: Iterable[CellChoice],
    observations: Observations,
    *,
    replicates: int = REPLICATES,
    seed: int = SEED,
) -> TableEvaluation:
    """Follow the table on held-out cases, beside every arm used everywhere.

    Args:
        choices: the table; a cell that it does not know is re-prefilled.
        observations: of items that the table was not derived from, "re-prefill" among the arms.
        replicates, seed: of the bootstrap over items.

    Raises:
        ValueError: the table's arms were measured on no case, or a cell chosen for twice.
    """
    chosen: dict[Hashable, str] = {}
    for choice in choices:
        if choice.cell in chosen:
            raise ValueError(f"cell {choice.cell!r} has two choices; a table has one for each")
        chosen[choice.cell] = choice.arm
    steps = {
        cell: [(case, chosen.get(cell, RE_PREFILL)) for case in cases] for cell, cases in observations.members.items()
    }
    everything = [step for cell in steps.values() for step in cell]
    table = _result(observations, "table", everything, replicates, seed)
    if table is None:
        raise ValueError("the table's arms were measured on none of these cases")
    fixed = [
        _result(observations, arm, [(case, arm) for case, _ in everything], replicates, seed)
        for arm in sorted(set(observations.arms))
    ]
    by_cell = [(cell, _result(observations, "table", cases, replicates, seed)) for cell, cases in steps.items()]
    return TableEvaluation(
        table, tuple(r for r in fixed if r is not None), tuple((cell, r) for cell, r in by_cell if r is not None)
    )


def _result(
    observations: Observations, name: str, steps: Sequence[tuple[Hashable, str]], replicates: int, seed: int
) -> ArmResult | None:
    """Mean recovery and cost of doing these (case, arm) steps; None where none of them was measured."""
    known = [step for step in steps if step in observations.entries]
    if not known:
        return None
    values: NDArray[np.float64] = np.array([observations.entries[step] for step in known])
    recovery = _interval(values[:, 1], [observations.item_of[case] for case, _ in known], replicates, seed)
    share = sum(arm == RE_PREFILL for _, arm in known) / len(known)
    return ArmResult(
        name,
        len(known),
        len(steps) - len(known),
        recovery.point,
        recovery.low,
        recovery.high,
        float(values[:, 0].mean()),
        share,
    )


def _interval(recovery: NDArray[np.float64], items: Sequence[Hashable], replicates: int, seed: int) -> Interval:
    """The mean with its interval over items."""
    codes: dict[Hashable, int] = {}
    sources = [codes.setdefault(item, len(codes)) for item in items]
    return paired_bootstrap(recovery, np.zeros(len(recovery)), sources=sources, replicates=replicates, seed=seed)
