"""Several edits of one context: what the probes find, by mode and step."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import NamedTuple

from cachemend.warehouse.report.edits.analysis import Step
from cachemend.warehouse.report.edits.names import PolicyArm

_MODES = {
    "at-once": "at once",
    "successive": "one after another",
    "successive-limit": "one after another, with a limit",
}


class SequenceLine(NamedTuple):
    """Means over the n successful probes of one mode, number of edits, step and arm; shares are 0 to 1."""

    mode: str
    n_edits: int
    step: int
    arm: PolicyArm
    n: int
    n_failed: int
    recovery: float | None
    flip: float | None
    tv: float | None
    staleness: int | None
    stale_rows: float | None
    refreshed_rows: float | None
    re_prefilled: float | None


def sequence_lines(steps: Sequence[Step]) -> list[SequenceLine]:
    """Summarise the sequences of a group."""
    found: defaultdict[tuple[str, int, int, PolicyArm], list[Step]] = defaultdict(list)
    for step in steps:
        limit = "" if step.staleness_limit is None else f" of {step.staleness_limit}"
        found[f"{_MODES[step.mode]}{limit}", step.n_edits, step.step, step.arm].append(step)
    order = sorted(found, key=lambda key: (key[1], key[0], key[3].order, key[2]))
    return [_line(*key, found[key]) for key in order]


def _line(mode: str, n_edits: int, step: int, arm: PolicyArm, rows: Sequence[Step]) -> SequenceLine:
    ok = [row for row in rows if row.ok]
    return SequenceLine(
        mode=mode,
        n_edits=n_edits,
        step=step,
        arm=arm,
        n=len(ok),
        n_failed=len(rows) - len(ok),
        recovery=_mean(row.margin_recovery for row in ok),
        flip=_mean(row.flip for row in ok),
        tv=_mean(row.tv_to_clean for row in ok),
        staleness=max((row.worst_staleness for row in ok if row.worst_staleness is not None), default=None),
        stale_rows=_mean(row.n_stale_rows for row in ok),
        refreshed_rows=_mean(row.n_refreshed_rows for row in ok),
        re_prefilled=_mean(row.re_prefilled for row in ok),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    found = [float(value) for value in values if value is not None]
    return fmean(found) if found else None
