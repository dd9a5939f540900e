"""Reading the records of a results folder as typed rows, split into groups that are never pooled."""

from collections import defaultdict
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path

from cachemend.warehouse import store
from cachemend.warehouse.report.labels import ArmKey, method_name

STAGES = ("signal", "allocate", "shift", "refresh", "prefill", "query", "decode")
"""Timed components of an answer after the edit, in the order they run.

Prefill is one of them only for Re-prefill, which rebuilds the edited context; for Dirty it comes before the edit.
"""

INVARIANTS = ("input_unchanged", "positions_exact", "unselected_bit_identical")

CONTROL = "bottom-right"
"""The executor that is no repair; named here because importing the executors loads torch."""

RUNS_EXPRESSION = "CAST(flatten([[i.start, i.stop - i.start] for i in intervals]) AS VARCHAR) AS runs"
"""SQL of `Row.runs`."""


@dataclass(frozen=True, kw_only=True, order=True)
class Identity:
    """What the rows of one group share: all that decides a result but the case and the arm."""

    experiment: str
    model: str
    model_fingerprint: str
    dtype: str
    cohort_digest: str
    score_rule: str
    decoding: str
    executor: str
    attention: str
    engine_version: int

    @property
    def repairs(self) -> bool:
        """Whether recomputed rows see no token after their own; an executor whose rows do is no repair."""
        return self.executor != CONTROL


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One record: a case answered by an arm. Seconds, nats and counts are as in the view `records`.

    `runs` is `intervals` as the text of a list of numbers, start and length of each in turn: one object for what may
    be thousands of positions.
    """

    case_digest: str
    case_id: str
    stratum: str | None
    length: int | None
    n_tokens: int
    prefix_length: int
    deleted_length: int
    allocator: str
    budget: float | None
    auxiliary: str | None
    run_id: str
    recorded_at: datetime
    outcome: str
    error: str | None
    em: float | None
    gold_nll: float | None
    tv_to_clean: float | None
    nr_tv: float | None
    leakage: float | None
    answer: str | None
    gold: list[str] | None
    n_intervals: int | None
    positions_budget: int | None
    token_layers: int | None
    causal_pairs: int | None
    t_prefill: float | None
    t_signal: float | None
    t_allocate: float | None
    t_shift: float | None
    t_refresh: float | None
    t_query: float | None
    t_decode: float | None
    latency: float | None
    input_unchanged: bool | None
    positions_exact: bool | None
    unselected_bit_identical: bool | None
    runs: str | None

    @property
    def arm(self) -> ArmKey:
        """The arm."""
        return ArmKey(method_name(self.allocator, self.auxiliary), self.budget)

    @property
    def ok(self) -> bool:
        """Whether the arm ran to its end."""
        return self.outcome == "ok"

    def seconds(self, stage: str) -> float | None:
        """Seconds of a stage after the edit; None where it was not timed or did not run."""
        if stage == "prefill" and self.allocator != "re-prefill":
            return None
        value: float | None = getattr(self, f"t_{stage}")
        return value

    @property
    def correct(self) -> float:
        """1 for a right answer, 0 for a wrong one; an arm that failed has no right answer."""
        return float(self.ok and self.em == 1.0)


def read_groups(results: Path) -> dict[Identity, tuple[Row, ...]]:
    """Return the latest rows of every group, groups and rows in a fixed order; none if there are no records."""
    shared = [field.name for field in fields(Identity)]
    own = [field.name for field in fields(Row)]
    columns = [RUNS_EXPRESSION if name == "runs" else name for name in shared + own]
    answer = store.ask(results, f"SELECT {', '.join(columns)} FROM records ORDER BY ALL")
    groups: defaultdict[Identity, list[Row]] = defaultdict(list)
    for record in answer.table.to_pylist():
        identity = Identity(**{name: record[name] for name in shared})
        groups[identity].append(Row(**{name: record[name] for name in own}))
    return {identity: tuple(rows) for identity, rows in sorted(groups.items())}
