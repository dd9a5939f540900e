"""The whole repair path on tiny FP64 models against a NumPy decoder written from the paper alone."""

import numpy as np
import pytest
import torch

from cachemend.repair_core import Deletion, answer, prefill, refresh, replay, shift
from cachemend.repair_core.caches import Rows, read_rows
from cachemend.repair_core.executors import REPAIRING

from oracles import llama as oracle
from support.tiny_models import BY_NAME, VOCABULARY, build

# Rotary angles and norms are computed in FP32 by the models themselves.
TOLERANCE = 2e-5
IDS = np.random.default_rng(3).integers(3, VOCABULARY, 48).tolist()
DELETION = Deletion(prefix_ids=IDS[:9], deleted_ids=IDS[9:14], suffix_ids=IDS[14:])
POSITIONS = [9, 10, 17, 25, 26, 27, 42]
models = pytest.mark.parametrize("name", ["llama", "qwen2", "qwen3"])


def _setup(name: str) -> tuple[torch.nn.Module, dict, dict]:
    model = build(BY_NAME[name], dtype=torch.float64)
    weights = {key: value.detach().double().numpy() for key, value in model.state_dict().items()}
    config = model.config
    facts = {
        "hidden": config.hidden_size,
        "layers": config.num_hidden_layers,
        "heads": config.num_attention_heads,
        "kv_heads": config.num_key_value_heads,
        "head_dim": config.head_dim,
        "rope_theta": config.rope_parameters["rope_theta"],
        "eps": config.rms_norm_eps,
    }
    return model, weights, facts


def _distance(rows: list[Rows], keys: list, values: list) -> float:
    return max(
        max(np.abs(r.keys[0].numpy() - k).max() / np.abs(k).max(), np.abs(r.values[0].numpy() - v).max())
        for r, k, v in zip(rows, keys, values, strict=True)
    )


@models
def test_prefill_shift_and_replay(name: str) -> None:
    model, weights, facts = _setup(name)
    _, keys, values = oracle.prefill(weights, facts, list(DELETION.original_ids))
    dirty = prefill(model, DELETION.original_ids)
    assert _distance(read_rows(dirty), keys, values) <= TOLERANCE
    shifted = oracle.shift(keys, values, DELETION.prefix_length, DELETION.deleted_length, facts)
    assert _distance(read_rows(shift(model, dirty, DELETION)), *shifted) <= TOLERANCE
    _, clean_keys, clean_values = oracle.prefill(weights, facts, list(DELETION.edited_ids))
    assert _distance(read_rows(replay(model, dirty, DELETION)), clean_keys, clean_values) <= TOLERANCE


@models
@pytest.mark.parametrize("executor", REPAIRING)
def test_refresh(name: str, executor: str) -> None:
    model, weights, facts = _setup(name)
    _, keys, values = oracle.prefill(weights, facts, list(DELETION.original_ids))
    stale = oracle.shift(keys, values, DELETION.prefix_length, DELETION.deleted_length, facts)
    expected = oracle.refresh(weights, facts, list(DELETION.edited_ids), *stale, POSITIONS)
    shifted = shift(model, prefill(model, DELETION.original_ids), DELETION)
    out = refresh(model, shifted, DELETION.edited_ids, POSITIONS, executor=executor)
    assert _distance(read_rows(out), *expected) <= TOLERANCE


@models
def test_greedy_answers(name: str) -> None:
    model, weights, facts = _setup(name)
    query = [5, 9, 77]
    _, keys, values = oracle.prefill(weights, facts, list(DELETION.edited_ids))
    first, ids = oracle.greedy(weights, facts, keys, values, len(DELETION.edited_ids), query, 12)
    said = answer(model, prefill(model, DELETION.edited_ids), query, max_new_tokens=12, continuations=[ids[:3]])
    assert list(said.ids) == list(ids)
    probabilities = np.exp(first - first.max())
    probabilities /= probabilities.sum()
    assert np.abs(said.first - probabilities).max() <= 1e-4
    # Greedy tokens as the gold answer: the first contributes -log of the largest probability.
    alone = answer(model, prefill(model, DELETION.edited_ids), query, 1, continuations=[ids[:1]])
    assert alone.logprobs[0] == pytest.approx(np.log(probabilities.max()), rel=1e-3)
    assert len(said.logprobs) == 1
    assert said.logprobs[0] < 0
