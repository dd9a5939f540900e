"""What repair, Replay and Re-prefill would cost, before paying for any of them (paper sections 13.1 to 13.4)."""

from dataclasses import dataclass
from operator import index
from typing import NamedTuple

from torch import nn

from cachemend.repair_core.budget import Tokens, repair_budget
from cachemend.repair_core.calibrating import machine_for
from cachemend.repair_core.context import StaleContext
from cachemend.repair_core.edits import Edit, require_edit
from cachemend.repair_core.errors import InputError, nearest
from cachemend.repair_core.executors import REPAIRING
from cachemend.repair_core.executors.packed_attention import ROW_GROUP
from cachemend.repair_core.machine import Machine
from cachemend.repair_core.shapes import Shapes, model_shapes
from cachemend.repair_core.shifting import edit_rotations, retained_segments

REPAIR, REPLAY, RE_PREFILL = "repair", "replay", "re-prefill"
_EXECUTORS = (*REPAIRING, "auto")


class Cost(NamedTuple):
    """Seconds, and the peak of bytes beyond the model and the original cache."""

    seconds: float
    bytes: int


class RepairSeconds(NamedTuple):
    """The parts of a repair: choosing the positions, moving the cache, recomputing the rows."""

    signal: float
    shift: float
    refresh: float


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Predicted costs of the three ways to a usable cache of the edited context; the original cache exists.

    Attributes:
        budget_rows: B, the retained rows that repair recomputes; those of inserted tokens come on top.
        repair: Shift, refresh of the B rows and of inserted tokens, with the choice of positions.
        replay: recomputation of everything from the first change on, behind a copy of the prefix.
        re_prefill: recomputation of the whole edited context.
        parts: the seconds of `repair`.
        advice: the fastest: "repair", "replay" or "re-prefill". The two exact ones are preferred when equally fast.
        reason: one line.
    """

    budget_rows: int
    repair: Cost
    replay: Cost
    re_prefill: Cost
    parts: RepairSeconds
    advice: str
    reason: str

    @property
    def prefers_replay(self) -> bool:
        """Whether a sparse repair costs more than the exact Replay (paper section 13.4 has such a case)."""
        return self.replay.seconds <= self.repair.seconds


def estimate(
    model: nn.Module,
    edit: Edit | StaleContext,
    budget: float | str | Tokens = 5,
    *,
    executor: str = "packed",
    n_intervals: int | None = None,
    in_place: bool = True,
) -> Estimate:
    """Predict seconds and peak extra bytes of repair, Replay and Re-prefill on this machine, and advise the fastest.

    The first call for a kind of model calibrates the machine, which takes seconds; its result is kept in the user's
    cache folder. Later calls for the same model run no layer.

    Args:
        model: a Hugging Face causal language model.
        edit: a `Deletion`, a `Replacement` or `Edits`, or a context that holds one.
        budget: percent of the retained suffix to recompute, or ``Tokens(n)``.
        executor: "packed", "interval", "direct", "one-shot" or "auto".
        n_intervals: of the rows to recompute. It is not known before allocation; the packed and the one-shot
            executor do not depend on it, and "auto" is taken for packed without it.
        in_place: refresh the shifted cache itself, as `repair` does, instead of a copy.

    Raises:
        InputError: no edit, bad budget, executor or number of intervals, or a sequential executor without that number.
        Refused: a model that repair does not support, or whose rows cannot be moved as this edit would.
    """
    change = edit.deletion if isinstance(edit, StaleContext) else edit
    require_edit("edit", change)
    rows = repair_budget(change.suffix_length, budget)
    lengths = Lengths(change.prefix_length, change.suffix_length, rows, len(change.inserted_positions))
    intervals = _check_executor(executor, n_intervals, lengths.recomputed)
    edit_rotations(model, change, retained_segments(change))
    return predict(model_shapes(model), machine_for(model), lengths, executor, intervals, in_place)


class Lengths(NamedTuple):
    """P, S and B in rows, and the inserted tokens, which have no cached row and cost no budget."""

    prefix: int
    suffix: int
    budget: int
    inserted: int = 0

    @property
    def context(self) -> int:
        """The edited context."""
        return self.prefix + self.behind

    @property
    def behind(self) -> int:
        """Everything from the first change on: what Replay recomputes."""
        return self.suffix + self.inserted

    @property
    def recomputed(self) -> int:
        """What repair recomputes."""
        return self.budget + self.inserted


def predict(
    shapes: Shapes,
    machine: Machine,
    lengths: Lengths,
    executor: str = "packed",
    intervals: int = 1,
    in_place: bool = True,
) -> Estimate:
    """The estimate as a function of shapes, calibration and lengths alone."""
    context = lengths.context
    chosen = 0 < lengths.budget < lengths.suffix
    parts = RepairSeconds(
        signal=machine.signal * lengths.suffix if chosen else 0.0,
        shift=context * shapes.kv_row_bytes / machine.shift,
        refresh=_refresh_seconds(shapes, machine, lengths, executor, intervals, in_place),
    )
    copied = lengths.prefix * shapes.kv_row_bytes / machine.copy
    costs = {
        REPLAY: Cost(
            copied + _forward_seconds(shapes, machine, lengths.behind, lengths.prefix), _replay_bytes(shapes, lengths)
        ),
        RE_PREFILL: Cost(
            _forward_seconds(shapes, machine, context, 0),
            context * shapes.kv_row_bytes + _activation_bytes(shapes, context, 0),
        ),
        REPAIR: Cost(sum(parts), _repair_bytes(shapes, lengths, in_place)),
    }
    advice = min(costs, key=lambda name: costs[name].seconds)
    return Estimate(
        budget_rows=lengths.budget,
        repair=costs[REPAIR],
        replay=costs[REPLAY],
        re_prefill=costs[RE_PREFILL],
        parts=parts,
        advice=advice,
        reason=_reason(costs, parts, lengths, advice),
    )


def _check_executor(executor: str, n_intervals: int | None, rows: int) -> int:
    if not isinstance(executor, str) or executor not in _EXECUTORS:
        raise InputError(f"executor {executor!r} cannot be estimated; {nearest(str(executor), _EXECUTORS)}")
    if n_intervals is None:
        if executor in ("interval", "direct") and rows:
            raise InputError(f"executor {executor!r} runs once per interval; give n_intervals")
        return min(rows, 2)
    try:
        count = index(n_intervals)
    except TypeError:
        count = 0
    if count < 1:
        raise InputError(f"n_intervals must be a positive whole number, not {n_intervals!r}")
    if count > rows:
        right = f"give 1 to {rows}" if rows else "leave it out"
        raise InputError(f"n_intervals {count} is impossible with {rows} rows; {right}")
    return count


def _forward_seconds(shapes: Shapes, machine: Machine, rows: int, history: int) -> float:
    """The model's own forward of `rows` rows behind `history` cached ones."""
    if not rows:
        return 0.0
    taken = (rows + history) * shapes.kv_row_bytes / machine.history if history else 0.0
    attention = shapes.stock_pairs(rows, history) * shapes.pair_flops / machine.attention
    return machine.traversal + machine.products_seconds(rows, shapes.row_flops) + attention + taken


def _refresh_seconds(
    shapes: Shapes, machine: Machine, lengths: Lengths, executor: str, intervals: int, in_place: bool
) -> float:
    prefix, rows = lengths.prefix, lengths.recomputed
    whole = lengths.context * shapes.kv_row_bytes / machine.copy
    copied = 0.0 if in_place else whole
    if not rows:
        return copied
    if executor == "auto":
        executor = "direct" if intervals == 1 else "packed"
    if executor == "packed":
        attention = shapes.packed_pairs(rows, prefix, lengths.behind) * shapes.pair_flops / machine.packed
        groups = shapes.layers * rows / ROW_GROUP * machine.packed_group
        return copied + machine.traversal + machine.products_seconds(rows, shapes.row_flops) + attention + groups
    if executor == "one-shot":  # its output is always a copy, and appending copies the cache once more
        return 2 * whole + _forward_seconds(shapes, machine, rows, lengths.context)
    width, history = -(-rows // intervals), prefix + (lengths.suffix - lengths.budget) // 2
    one = _forward_seconds(shapes, machine, width, history)
    # The interval-wise reference clones the prefix and reassembles the whole cache every time.
    return copied + intervals * (one + (1.5 * whole if executor == "interval" else 0.0))


def _activation_bytes(shapes: Shapes, rows: int, history: int) -> int:
    """What a stock forward keeps at its widest moment: the MLP's rows, or attention's masks and repeated K/V."""
    mlp = rows * (4 * shapes.hidden + 3 * shapes.intermediate) * shapes.itemsize
    pairs = rows * (rows + history)
    layer_kv = (rows + history) * shapes.kv_row_bytes // shapes.layers
    attention = shapes.fold * layer_kv + layer_kv
    if "flash" not in shapes.attention and shapes.attention != "sdpa":
        attention += 3 * shapes.heads * pairs * shapes.itemsize
    masked = history or any(w is not None and rows > w.size for w in shapes.windows)
    mask = pairs * (1 + shapes.itemsize) if masked and "flash" not in shapes.attention else 0
    return max(mlp, attention) + mask


def _replay_bytes(shapes: Shapes, lengths: Lengths) -> int:
    """The output, the copied prefix it grew from, and one forward of what stands behind it."""
    kept = (lengths.prefix + lengths.context) * shapes.kv_row_bytes
    return kept + _activation_bytes(shapes, lengths.behind, lengths.prefix)


def _repair_bytes(shapes: Shapes, lengths: Lengths, in_place: bool) -> int:
    """The shifted cache (and a copy of it), with one layer's rotation or the packed rows and their masks."""
    context, rows = lengths.context, lengths.recomputed
    cache = context * shapes.kv_row_bytes
    rotating = 3 * lengths.suffix * shapes.kv_row_bytes // shapes.layers
    kinds = set(shapes.windows)
    masks = sum(rows * shapes.fold * min(context, w.size if w else context) * shapes.itemsize for w in kinds)
    packed = rows * (4 * shapes.hidden + 3 * shapes.intermediate) * shapes.itemsize + masks
    return max(cache + rotating, (1 if in_place else 2) * cache + packed)


def _reason(costs: dict[str, Cost], parts: RepairSeconds, lengths: Lengths, advice: str) -> str:
    times = ", ".join(f"{name} {cost.seconds * 1e3:.3g} ms" for name, cost in costs.items())
    if advice == RE_PREFILL:
        return f"one forward of all {lengths.context} rows is cheapest, and exact: {times}"
    if advice == REPLAY and lengths.behind:
        return (
            f"recomputing all {lengths.behind} rows from the first change on is cheapest, and exact: {times} "
            f"(of repair, {(parts.signal + parts.shift) * 1e3:.3g} ms do not depend on the budget)"
        )
    if advice == REPLAY:
        return f"nothing is to be recomputed; copying the {lengths.prefix} prefix rows is cheapest, and exact: {times}"
    if not lengths.recomputed:
        return f"nothing is to be recomputed; moving {lengths.context} rows is cheapest: {times}"
    chosen = [f"{lengths.budget} of {lengths.suffix} suffix rows"] if lengths.budget else []
    new = [f"{lengths.inserted} inserted rows"] if lengths.inserted else []
    return f"{' and '.join(chosen + new)} are cheapest to repair: {times}"
