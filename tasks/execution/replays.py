"""Whether captured refreshes stay right when buckets and executors take turns, before any of them is timed."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import nn

from cachemend.repair_core.intervals import Positions
from cachemend.tasks.execution.lines import Line
from cachemend.tasks.execution.supports import matched_supports
from cachemend.tasks.execution.trial import Trial

ROUNDS = 2
"""A graph is captured in the first round and replayed in the second, after every other line."""


class Context(NamedTuple):
    """N, B, and the numbers of intervals R that take turns."""

    length: int
    rows: int
    intervals: tuple[int, ...]


def check_replays(model: nn.Module, lines: Sequence[Line], contexts: Sequence[Context]) -> list[dict[str, Any]]:
    """One row per refresh: the lines of one backend in turn, at every context and support in turn, in two rounds.

    Raises:
        InputError: supports that do not fit the length.
    """
    trials = [(context, Trial.of(model, context.length), _supports(context)) for context in contexts]
    rows = []
    for attention in dict.fromkeys(line.attention for line in lines):
        mine = [line for line in lines if line.attention == attention]
        for number in range(ROUNDS):
            for context, trial, supports in trials:
                for n, support in supports.items():
                    told = {"length": context.length, "rows": context.rows, "n_intervals": n, "round": number}
                    for line in mine:
                        found = trial.check(line, support).columns(trial.unchanged())
                        rows.append({**line._asdict(), **told, **found})
    return rows


def _supports(context: Context) -> dict[int, Positions]:
    return matched_supports(context.length, context.rows, context.intervals)
