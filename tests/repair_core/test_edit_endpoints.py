"""The ends of repair after an edit, on every family: nothing, everything, and what is contiguous from the edit on."""

from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import nn

from cachemend.repair_core import Replacement, StaleContext, choose, prefill, refresh, shift
from cachemend.repair_core.caches import Rows, clone_rows, read_rows
from cachemend.repair_core.deltas import apply_delta
from cachemend.repair_core.invariants import changed_rows
from cachemend.repair_core.transplant import transplant

from support.tiny_models import FIXED_POSITIONS, MATRIX, VOCABULARY, Tiny, build

IDS = np.random.default_rng(2).integers(3, VOCABULARY, 64).tolist()
START, STOP = 18, 22
IN_PLACE = Replacement(original_ids=IDS, start=START, stop=STOP, replacement_ids=[7, 8, 9, 10])
LONGER = Replacement(original_ids=IDS, start=START, stop=STOP, replacement_ids=[7, 8, 9, 10, 11, 12])
SHORTER = Replacement(original_ids=IDS, start=START, stop=STOP, replacement_ids=[7])
EXECUTORS = ("packed", "interval")
every_family = pytest.mark.parametrize("tiny", [*MATRIX, *FIXED_POSITIONS], ids=lambda tiny: tiny.name)


class Run(NamedTuple):
    """One family and an edit in place, before anything is repaired."""

    model: nn.Module
    stale: list[Rows]
    clean: list[Rows]


@cache
def run(name: str) -> Run:
    model = build(next(tiny for tiny in (*MATRIX, *FIXED_POSITIONS) if tiny.name == name))
    return Run(model, read_rows(prefill(model, IDS)), read_rows(prefill(model, IN_PLACE.edited_ids)))


def repaired(model: nn.Module, edit: Replacement, positions: list[int], executor: str = "packed") -> list[Rows]:
    done = refresh(model, shift(model, prefill(model, IDS), edit), edit.edited_ids, positions, executor=executor)
    return read_rows(done)


def worst(a: list[Rows], b: list[Rows], stop: int | None = None) -> float:
    """max|difference| / max|reference| of rows before `stop`, over layers, keys and values."""
    pairs = [(x[:, :, :stop], y[:, :, :stop]) for p, q in zip(a, b, strict=True) for x, y in zip(p, q, strict=True)]
    return max(float((x - y).abs().max() / y.abs().max()) for x, y in pairs)


@every_family
def test_without_positions_only_the_span_changes(tiny: Tiny) -> None:
    model, stale, clean = run(tiny.name)
    ours = repaired(model, IN_PLACE, list(range(START, STOP)))
    assert changed_rows(stale, ours).tolist() == list(range(START, STOP))
    assert worst(ours, clean, STOP) <= 1e-4
    assert worst(ours, clean) >= 5e-2, "the rows behind the span are stale"


@every_family
@pytest.mark.parametrize("executor", EXECUTORS)
def test_everything_from_the_span_on_is_the_clean_cache(tiny: Tiny, executor: str) -> None:
    model, stale, clean = run(tiny.name)
    ours = repaired(model, IN_PLACE, list(range(START, 64)), executor)
    assert worst(ours, clean) <= 1e-4
    assert changed_rows(stale, ours).min() == START


@every_family
def test_the_whole_pool_leaves_only_the_last_row_stale(tiny: Tiny) -> None:
    model, stale, clean = run(tiny.name)
    ours = repaired(model, IN_PLACE, [*range(START, STOP), *IN_PLACE.pool.tolist()])
    assert worst(ours, clean, 63) <= 1e-4
    for rows, before in zip(ours, stale, strict=True):
        for x, y in zip(rows, before, strict=True):
            assert torch.equal(x[:, :, 63], y[:, :, 63])


@every_family
def test_a_contiguous_set_is_clean_and_recompute_equals_transplant(tiny: Tiny) -> None:
    model, stale, clean = run(tiny.name)
    where = list(range(START, STOP + 9))
    ours, theirs = repaired(model, IN_PLACE, where), clone_rows(stale)
    apply_delta(theirs, transplant(clean, where), 0)
    assert worst(ours, theirs) <= 1e-4
    assert worst(ours, clean, STOP + 9) <= 1e-4
    # A set with a gap reads stale rows: recomputed, it is not what a clean cache holds.
    apart = [*range(START, STOP), STOP + 1, *range(STOP + 5, STOP + 9)]
    scattered, moved = repaired(model, IN_PLACE, apart), clone_rows(stale)
    apply_delta(moved, transplant(clean, apart), 0)
    assert worst(scattered, moved) >= 1e-3


@pytest.mark.parametrize("tiny", MATRIX, ids=lambda tiny: tiny.name)
@pytest.mark.parametrize("edit", [LONGER, SHORTER], ids=["longer", "shorter"])
def test_an_edit_that_changes_the_length_has_the_same_ends(tiny: Tiny, edit: Replacement) -> None:
    model, stale, _ = run(tiny.name)
    length, clean = len(edit.edited_ids), read_rows(prefill(model, edit.edited_ids))
    every = repaired(model, edit, list(range(START, length)))
    assert worst(every, clean) <= 1e-4
    pool = repaired(model, edit, [*range(*edit.span), *edit.pool.tolist()])
    assert worst(pool, clean, length - 1) <= 1e-4
    none = repaired(model, edit, list(range(*edit.span)))
    assert worst(none, clean, edit.span.stop) <= 1e-4
    assert worst(none, clean) >= 1e-2
    for ours in (every, none):
        for rows, before in zip(ours, stale, strict=True):
            assert all(torch.equal(x[:, :, :START], y[:, :, :START]) for x, y in zip(rows, before, strict=True))


@pytest.mark.parametrize("tiny", FIXED_POSITIONS, ids=lambda tiny: tiny.name)
@pytest.mark.parametrize("name", ["edit-local", "attention", "cacheblend", "random", "two-stage"])
def test_policies_run_where_rows_cannot_be_moved(tiny: Tiny, name: str) -> None:
    model, _, _ = run(tiny.name)
    context = StaleContext(model, None, IN_PLACE, "", query_ids=[5, 6])  # type: ignore[arg-type]
    chosen = choose(name, context, 6).positions
    assert len(chosen) == 6
    ours = repaired(model, IN_PLACE, sorted({*range(START, STOP), *chosen.tolist()}))
    assert changed_rows(run(tiny.name).stale, ours).tolist() == sorted({*range(START, STOP), *chosen.tolist()})
