"""The control that masks like the released CacheBlend code."""

import numpy as np
import pytest
import torch

from cachemend.flows.config import ErasingNiahConfig
from cachemend.repair_core import Deletion, RowState, prefill, refresh, shift
from cachemend.repair_core.architecture import Window
from cachemend.repair_core.caches import read_rows
from cachemend.repair_core.executors import EXECUTORS, REPAIRING, get_executor
from cachemend.repair_core.executors.bottom_right import BottomRightExecutor
from cachemend.repair_core.executors.packed_attention import PackedPlan
from cachemend.repair_core.invariants import caches_equal, changed_rows

from oracles import attention as oracle
from support.tiny_models import BY_NAME, VOCABULARY, build

IDS = np.random.default_rng(2).integers(3, VOCABULARY, 90).tolist()
DELETION = Deletion(prefix_ids=IDS[:20], deleted_ids=IDS[20:31], suffix_ids=IDS[31:])
LENGTH = len(DELETION.edited_ids)
POSITIONS = [22, 23, 40, 41, 55, 70]
names = pytest.mark.parametrize("name", ["llama", "gemma3", "llama4"])


@names
def test_scattered_rows_read_the_future_and_the_last_rows_do_not(name: str) -> None:
    model = build(BY_NAME[name])
    shifted = shift(model, prefill(model, DELETION.original_ids), DELETION)
    ids = DELETION.edited_ids
    ours, theirs = (refresh(model, shifted, ids, POSITIONS, executor=e) for e in ("packed", "bottom-right"))
    changed = set(changed_rows(read_rows(ours), read_rows(theirs)))
    assert changed
    assert set(changed_rows(read_rows(shifted), read_rows(theirs))) == set(POSITIONS)
    assert theirs.row_states[0, POSITIONS].tolist() == [RowState.UNKNOWN] * len(POSITIONS)
    tail = range(LENGTH - 20, LENGTH)
    ours, theirs = (refresh(model, shifted, ids, tail, executor=e) for e in ("packed", "bottom-right"))
    assert caches_equal(read_rows(ours), read_rows(theirs))
    assert not theirs.is_clean


def test_a_token_behind_a_row_changes_it() -> None:
    model = build(BY_NAME["llama"])
    shifted = shift(model, prefill(model, DELETION.original_ids), DELETION)
    other = list(DELETION.edited_ids)
    other[70] = (other[70] + 1) % VOCABULARY
    for executor, sees in (("packed", False), ("bottom-right", True)):
        a, b = (read_rows(refresh(model, shifted, ids, POSITIONS, executor)) for ids in (DELETION.edited_ids, other))
        assert bool(set(changed_rows(a, b)) - {70}) == sees


@pytest.mark.parametrize("window", [None, Window(9), Window(9, chunked=True)])
def test_equals_the_fp64_oracle(window: Window | None) -> None:
    rng = np.random.default_rng(5)
    q, (k, v) = rng.normal(size=(6, 20, 16)), rng.normal(size=(2, 2, 50, 16))
    where = np.sort(rng.choice(50, 20, replace=False))

    class Model(torch.nn.Module):
        class config:
            num_hidden_layers = 1
            layer_types = ("chunked_attention" if window and window.chunked else "sliding_attention",)
            sliding_window = window.size if window else None
            attention_chunk_size = window.size if window else None

    plan = BottomRightExecutor().plan(Model(), torch.from_numpy(where)[None], 50)
    assert isinstance(plan, PackedPlan)
    limits = {} if window is None else {"chunk" if window.chunked else "window": window.size}
    expected = oracle.indexed_attention(q, k, v, range(30, 50), 0.25, **limits)
    out = plan.attend(*(torch.from_numpy(x).float()[None] for x in (q, k, v)), layer=0, scale=0.25)
    assert np.abs(out[0].transpose(0, 1).double().numpy() - expected).max() <= 5e-6


def test_it_is_named_and_never_chosen() -> None:
    assert list(EXECUTORS)[-1] == "bottom-right"
    assert "bottom-right" not in REPAIRING
    assert not any(isinstance(get_executor("auto", n), BottomRightExecutor) for n in (1, 2, 50))
    assert ErasingNiahConfig(executor="bottom-right").executor == "bottom-right"
