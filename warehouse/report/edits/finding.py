"""The opening of a group of the edit study: what was measured and what came out, in sentences made from the rows."""

from collections.abc import Sequence

from cachemend.warehouse.report.edits.cells import Cell, headline
from cachemend.warehouse.report.edits.names import SUBJECT, policy_label
from cachemend.warehouse.report.edits.rows import EditGroup
from cachemend.warehouse.report.formats import day, number, p_clause, percent, plural, signed
from cachemend.warehouse.report.rows import Identity

_TASK = (
    "A long context was cached; then a few tokens of one record in it were replaced in place, and the model is asked "
    "about that record. The span of the edit is always recomputed; a policy chooses K further positions."
)


def statement(identity: Identity, cohort: str | None, group: EditGroup, cells: Sequence[Cell]) -> str:
    """Return what was measured, in plain words."""
    named = f"cohort “{cohort}”" if cohort else f"the cohort {identity.cohort_digest[:12]}"
    parts = [f"{len(cell.cases):,} {cell.key.label}" for cell in cells]
    if group.steps:
        parts.append(plural(len({step.case_digest for step in group.steps}), "sequence of edits", "sequences of edits"))
    counted = "; ".join(parts)
    dates = [row.recorded_at for row in group.recorded]
    first, last = day(min(dates)), day(max(dates))
    when = f"recorded {first}" if first == last else f"recorded {first} to {last}"
    return (
        f"{_TASK} {identity.model} in {identity.dtype} on {named}: {counted}. Refresh ran on the {identity.executor} "
        f"executor with {identity.attention} attention; answers are scored by {identity.score_rule}. "
        f"Engine version {identity.engine_version}, {when}."
    )


def finding(cells: Sequence[Cell]) -> str:
    """Return the key result of a group; a headline cell that is no evidence says so before any number."""
    if not any(cell.recovery for cell in cells):
        return "The records of this group have not been analysed yet, so there is nothing to conclude."
    main = headline(cells)
    if main is None:
        return " ".join(["No derived item was run, so no policy is compared.", *_direct(cells)])
    opening = [f"This cell shows nothing: {main.shortfall}. Its numbers are listed, not interpreted."]
    if main.shortfall is None:
        opening = [_subject(main), *_rival(main)]
    return " ".join([*opening, *_distances(cells, main), *_direct(cells)])


def _subject(cell: Cell) -> str:
    found = cell.of(SUBJECT, cell.k)
    if found is None or found.mean is None:
        return f"{policy_label(SUBJECT)} was not run at K = {cell.k} on {cell.key.label}."
    controls = " and ".join(
        f"{policy_label(name)} {number(r.mean, 2)}"
        for name, k in (("random", cell.k), ("span", None))
        if (r := cell.of(name, k)) is not None
    )
    return (
        f"Where the answer depends on the edit but stands in text after it ({cell.key.label}), "
        f"{policy_label(SUBJECT)} at K = {cell.k} recovers {number(found.mean, 2)} of the answer margin "
        f"(95 % interval {number(found.low, 2)} to {number(found.high, 2)}) and flips {_rate(found.flip_rate)} of "
        f"{plural(found.n, 'retained item')}; {controls}."
    )


def _rival(cell: Cell) -> list[str]:
    if not cell.rivals:
        return []
    best = cell.rivals[0]
    told = (
        f"The best other deployable policy there is {policy_label(best.policy)} with {number(best.mean, 2)} "
        f"and {_rate(best.flip_rate)} flips"
    )
    contrast = next((c for c in cell.contrasts if c.policy_b == best.policy), None)
    if contrast is None or contrast.difference is None:
        return [f"{told}; the two were not compared item by item."]
    p = "" if contrast.p is None else f"; Wilcoxon {p_clause(contrast.p)}"
    adjusted = "" if contrast.p_holm is None else f", after Holm {p_clause(contrast.p_holm)}"
    return [
        f"{told}: {policy_label(SUBJECT)} minus it is {signed(contrast.difference, 2)} per item "
        f"({signed(contrast.low, 2)} to {signed(contrast.high, 2)}{p}{adjusted})."
    ]


def _distances(cells: Sequence[Cell], main: Cell) -> list[str]:
    sentences = []
    for cell in cells:
        far = cell.key.condition == "derived" and cell.key.split == main.key.split and cell is not main
        found = cell.of(SUBJECT, cell.k)
        if not far or found is None or found.mean is None:
            continue
        if cell.shortfall:
            sentences.append(f"At {cell.key.distance} tokens from the edit the cell shows nothing: {cell.shortfall}.")
            continue
        best = cell.rivals[0] if cell.rivals else None
        other = f"; the best other policy, {policy_label(best.policy)}, {number(best.mean, 2)}" if best else ""
        sentences.append(
            f"With the answer {cell.key.distance} tokens after the edit, {policy_label(SUBJECT)} at K = {cell.k} "
            f"recovers {number(found.mean, 2)}{other}."
        )
    return sentences


def _direct(cells: Sequence[Cell]) -> list[str]:
    cell = next((c for c in cells if c.key.condition == "direct"), None)
    means = [r.mean for r in cell.primary if r.k == cell.k and r.mean is not None] if cell else []
    if not means or cell is None:
        return []
    return [
        f"Where the edit itself is the answer ({cell.key.label}), policies at K = {cell.k} recover "
        f"{number(min(means), 2)} to {number(max(means), 2)}."
    ]


def _rate(rate: float | None) -> str:
    return percent(None if rate is None else 100 * rate, 0)
