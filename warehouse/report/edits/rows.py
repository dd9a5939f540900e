"""Reading the edit study of a results folder: records and analysis rows, split into groups that are never pooled."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from cachemend.warehouse import store
from cachemend.warehouse.report.edits.analysis import Contrast, Decision, Distance, Operator, Recovery, Step, Trigger
from cachemend.warehouse.report.edits.names import PolicyArm
from cachemend.warehouse.report.rows import RUNS_EXPRESSION, Identity

INVARIANTS = ("input_unchanged", "positions_exact", "unselected_bit_identical", "upstream_bit_identical")

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class EditRow:
    """One record: an item answered by an arm, as in the view `edit_records`; `runs` as in the deletion study's rows."""

    case_digest: str
    case_id: str
    item_id: str
    split: str
    condition: str
    distance: int
    family: str
    policy: str
    k: int | None
    operator: str
    run_id: str
    recorded_at: datetime
    outcome: str
    error: str | None
    n_tokens: int
    span_start: int
    span_stop: int
    carrier_start: int
    carrier_stop: int
    n_positions: int | None
    n_intervals: int | None
    answer: str | None
    old_answer: str
    new_answer: str
    margin: float | None
    margin_recovery: float | None
    flip: bool | None
    retained: bool | None
    tv_to_clean: float | None
    guards: str | None
    input_unchanged: bool | None
    positions_exact: bool | None
    unselected_bit_identical: bool | None
    upstream_bit_identical: bool | None
    runs: str | None

    @property
    def arm(self) -> PolicyArm:
        """The arm."""
        return PolicyArm(self.policy, self.k, self.operator)

    @property
    def ok(self) -> bool:
        """Whether the arm ran to its end."""
        return self.outcome == "ok"


class EditGroup(NamedTuple):
    """Everything that a results folder holds about one group."""

    rows: Sequence[EditRow]
    recovery: Sequence[Recovery]
    contrasts: Sequence[Contrast]
    distances: Sequence[Distance]
    operators: Sequence[Operator]
    steps: Sequence[Step]
    triggers: Sequence[Trigger]
    decisions: Sequence[Decision]

    @property
    def recorded(self) -> list[EditRow | Step]:
        """Every record, of items and of sequences."""
        return [*self.rows, *self.steps]


def read_edit_groups(results: Path) -> dict[Identity, EditGroup]:
    """Return every group that has a record, of an item or of a sequence, in a fixed order; none if there are none."""
    rows = _read_records(results)
    parts = (
        _read(results, "edit_recovery", Recovery),
        _read(results, "edit_contrasts", Contrast),
        _read(results, "edit_distance", Distance),
        _read(results, "edit_operators", Operator),
        _read(results, "edit_sequences", Step),
        _read(results, "edit_triggers", Trigger),
        _read(results, "edit_decisions", Decision),
    )
    steps = parts[4]
    return {
        identity: EditGroup(rows.get(identity, ()), *(part.get(identity, ()) for part in parts))  # type: ignore[arg-type]
        for identity in sorted(rows.keys() | steps.keys())
    }


def _read_records(results: Path) -> dict[Identity, list[EditRow]]:
    own = [field.name for field in fields(EditRow)]
    columns = [RUNS_EXPRESSION if name == "runs" else name for name in own]
    groups: defaultdict[Identity, list[EditRow]] = defaultdict(list)
    for identity, record in _records(results, "edit_records", columns):
        groups[identity].append(EditRow(**{name: record[name] for name in own}))
    return dict(groups)


def _read(results: Path, view: str, kind: type[T]) -> dict[Identity, list[T]]:
    """Return a view's rows as named tuples, by group."""
    names: Sequence[str] = kind._fields  # type: ignore[attr-defined]
    groups: defaultdict[Identity, list[T]] = defaultdict(list)
    for identity, record in _records(results, view, names):
        groups[identity].append(kind(**{name: record[name] for name in names}))
    return dict(groups)


def _records(results: Path, view: str, columns: Sequence[str]) -> list[tuple[Identity, Mapping[str, Any]]]:
    shared = [field.name for field in fields(Identity)]
    answer = store.ask(results, f"SELECT {', '.join([*shared, *columns])} FROM {view} ORDER BY ALL")
    return [(Identity(**{name: row[name] for name in shared}), row) for row in answer.table.to_pylist()]
