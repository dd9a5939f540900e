"""What a repair costs beside a prefill of the edited context, timed in turn in one process (edit paper, Table 4)."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from cachemend.repair_core import LoadedModel, prefill, refresh
from cachemend.repair_core.architecture import text_config
from cachemend.repair_core.caches import clone_rows, plain_cache, read_rows
from cachemend.repair_core.errors import InputError
from cachemend.repair_core.forward import input_device
from cachemend.repair_core.intervals import Positions
from cachemend.repair_core.replacement import Replacement
from cachemend.repair_core.timing import synchronize
from cachemend.tasks.bench.floor import products_of_a_refresh
from cachemend.tasks.bench.sampling import Sample, interleaved

WARMUPS, REPEATS = 3, 20
SPAN = 3
DEPTH = 0.3
RE_PREFILL, REFRESH = "re-prefill", "refresh"
TIMED_STAGES = (
    "refresh: copy of the whole cache, span and the K positions behind it through all layers, write of their rows",
    "refresh in place: the same without the copy",
    "re-prefill: all tokens of the edited context; the query is in none of them",
    "floor: the matrix products of the same refresh and nothing else, no copy",
)


class Line(NamedTuple):
    """What is timed: a refresh by an executor at K positions, with or without a copy, or a re-prefill (no K)."""

    what: str
    executor: str
    k: int | None
    copy: bool


@dataclass(frozen=True, kw_only=True)
class CostCase:
    """A context of random tokens in which a short span near 30 % is replaced.

    Attributes:
        case_id: names the length.
        length: tokens of the context.
        seed: of the tokens.
    """

    case_id: str
    length: int
    seed: int = 0

    def __post_init__(self) -> None:
        if self.length < 2 * SPAN:
            raise InputError(f"length {self.length} of a timed context is too short for an edit of {SPAN} tokens")

    @cached_property
    def digest(self) -> str:
        """SHA-256 hex digest over all fields."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    def replacement(self, vocabulary: int) -> Replacement:
        """The edit, with tokens below `vocabulary`."""
        ids = np.random.default_rng(self.seed).integers(0, vocabulary, size=self.length)
        start = int(DEPTH * self.length)
        new = (ids[start : start + SPAN] + 1) % vocabulary
        return Replacement(original_ids=ids.tolist(), start=start, stop=start + SPAN, replacement_ids=new.tolist())


@dataclass(frozen=True, kw_only=True)
class CostArm:
    """All that is timed at one length, in one go: ratios hold between times that were taken together.

    Attributes:
        ks: positions behind the span.
        executors: how they are recomputed.
    """

    ks: tuple[int, ...]
    executors: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{'/'.join(self.executors)}@{'/'.join(map(str, self.ks))}"

    def lines(self) -> tuple[Line, ...]:
        """Every time to take."""
        cells = product(self.executors, self.ks, (True, False))
        return (Line(RE_PREFILL, "none", None, False), *(Line(REFRESH, *cell) for cell in cells))


def time_costs(
    loaded: LoadedModel, case: CostCase, arm: CostArm, attention: str, repeats: int = REPEATS
) -> list[dict[str, Any]]:
    """Time a re-prefill and every refresh in turn, and return one row of `edit_timings` each, by `arm.lines()`."""
    model = loaded.model
    edit = case.replacement(text_config(model).vocab_size)
    if max(arm.ks) > edit.pool.size:
        raise InputError(f"k = {max(arm.ks)} is more than the {edit.pool.size} positions downstream of the timed edit")
    stale = prefill(model, edit.original_ids)
    scratch = plain_cache(clone_rows(read_rows(stale)))
    where = {k: np.arange(edit.span.start, edit.span.stop + k, dtype=np.int64) for k in arm.ks}

    def run(line: Line) -> None:
        if line.k is None:
            prefill(model, edit.edited_ids)
        elif line.copy:
            refresh(model, stale, edit.edited_ids, where[line.k], line.executor, attention)
        else:
            refresh(model, scratch, edit.edited_ids, where[line.k], line.executor, attention, in_place=True)
        synchronize(model)

    functions: dict[object, Callable[[], object]] = {line: partial(run, line) for line in arm.lines()}
    floors = {k: floor for k in arm.ks if (floor := _floor(model, where[k])) is not None}
    times = interleaved({**functions, **floors}, repeats, WARMUPS)
    return [_row(line, times, edit, repeats) for line in arm.lines()]


def _row(line: Line, times: dict[object, Sample], edit: Replacement, repeats: int) -> dict[str, Any]:
    span, k, sample = edit.span.stop - edit.span.start, line.k, times[line]
    floor = times.get(k)
    return {
        **line._asdict(),
        "n_tokens": len(edit.edited_ids),
        "span": span,
        "seconds_median": sample.median,
        "seconds_low": sample.low,
        "seconds_high": sample.high,
        "n_warmup": WARMUPS,
        "n_timed": repeats,
        "token_layer_ratio": None if k is None else len(edit.edited_ids) / (span + k),
        "floor_seconds": None if floor is None else floor.median,
    }


def _floor(model: nn.Module, positions: Positions) -> Callable[[], object] | None:
    """The bare products of a refresh; None where they are not those of a plain decoder on the CPU."""
    config = text_config(model)
    plain = all(hasattr(config, name) for name in ("head_dim", "num_key_value_heads", "num_attention_heads"))
    if input_device(model).type != "cpu" or not plain or next(model.parameters()).dtype != torch.float32:
        return None
    return products_of_a_refresh(model, torch.from_numpy(positions))
