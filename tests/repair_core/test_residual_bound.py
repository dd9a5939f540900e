"""Proposition 14.1 on tiny models: against an evaluation written from the paper alone, and faults that must show."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.cache_utils import Cache

from cachemend.repair_core import Deletion, Refused, prefill, refresh, replay, shift
from cachemend.repair_core.attention_reading import LayerReading
from cachemend.repair_core.caches import clone_rows, read_rows
from cachemend.repair_core.invariants import caches_equal
from cachemend.repair_core.residual_bound import ResidualProbe, probe_residual, residual_bound

from oracles import residual as oracle
from support.tiny_models import BY_NAME, MATRIX, VOCABULARY, Tiny, build

IDS = np.random.default_rng(5).integers(3, VOCABULARY, 70).tolist()
DELETION = Deletion(prefix_ids=IDS[:12], deleted_ids=IDS[12:19], suffix_ids=IDS[19:])
POSITIONS = [12, 13, 20, 33, 34, 35, 50, 62]
NO_SOFTMAX = ("gemma2", "gpt-oss")


class Probed(NamedTuple):
    probe: ResidualProbe
    caches: tuple[Cache, Cache]
    model: torch.nn.Module


def probed(tiny: Tiny, rows: Sequence[int] = POSITIONS, dtype: torch.dtype = torch.float32) -> Probed:
    model = build(tiny, dtype=dtype)
    dirty = prefill(model, DELETION.original_ids)
    caches = (
        refresh(model, shift(model, dirty, DELETION), DELETION.edited_ids, POSITIONS),
        replay(model, dirty, DELETION),
    )
    before = [clone_rows(read_rows(cache)) for cache in caches]
    found = probe_residual(model, *caches, torch.tensor(DELETION.edited_ids), np.array(rows))
    assert all(caches_equal(old, read_rows(cache)) for old, cache in zip(before, caches, strict=True))
    return Probed(found, caches, model)


@pytest.mark.parametrize("name", ["llama", "qwen2", "qwen3"])
def test_equals_an_evaluation_from_the_paper_alone(name: str) -> None:
    found, caches, model = probed(BY_NAME[name], dtype=torch.float64)
    config = model.config
    weights = {key: value.detach().double().numpy() for key, value in model.state_dict().items()}
    facts = {
        "hidden": config.hidden_size,
        "layers": config.num_hidden_layers,
        "heads": config.num_attention_heads,
        "kv_heads": config.num_key_value_heads,
        "head_dim": config.head_dim,
        "rope_theta": config.rope_parameters["rope_theta"],
        "eps": config.rms_norm_eps,
    }
    tensors = [[[layer[i][0].numpy() for layer in read_rows(cache)] for i in range(2)] for cache in caches]
    for at, position in enumerate(POSITIONS):
        token = DELETION.edited_ids[position]
        sides = [oracle.row_attention(weights, facts, token, position, *cache) for cache in tensors]
        for layer, (repaired, replayed) in enumerate(zip(*sides, strict=True)):
            for head in range(facts["heads"]):
                error, measured, bound = oracle.both_sides(repaired, replayed, head)
                place = (layer, head, at)
                # Rotary angles and norms are computed in FP32 by the models themselves.
                assert found.found.error[place] == pytest.approx(error, rel=1e-3, abs=1e-5)
                assert found.found.measured[place] == pytest.approx(measured, rel=1e-3, abs=1e-3)
                assert found.found.bound[place] == pytest.approx(bound, rel=1e-3, abs=1e-3)
    assert found.found.error[1:].max() > 1e-2, "the repair leaves an error to bound"
    assert found.reproduced.shape == (4,)
    assert found.reproduced.max() < 1e-5


@pytest.mark.parametrize("tiny", [tiny for tiny in MATRIX if tiny.name not in NO_SOFTMAX], ids=lambda tiny: tiny.name)
def test_holds_on_every_row_of_every_layer(tiny: Tiny) -> None:
    found = probed(tiny).probe
    assert found.found.error.shape == (4, 6, len(POSITIONS))
    assert not found.found.violated.any()
    assert found.found.error.max() > 1e-2
    assert found.reproduced.max() < 2e-2, "the probe sees the rows that were refreshed"


def test_a_row_is_read_alone_as_among_others() -> None:
    some, every = (probed(BY_NAME["llama"], rows).probe.found for rows in ([20, 50], POSITIONS))
    for mine, all_rows in zip(some, every, strict=True):
        assert mine == pytest.approx(all_rows[..., [2, 6]], rel=1e-3, abs=1e-4)


@pytest.mark.parametrize(
    ("name", "line"),
    [("gemma2", "'gemma2' caps its attention logits"), ("gpt-oss", "'gpt_oss' has attention sinks")],
)
def test_other_attention_is_refused_by_name(name: str, line: str) -> None:
    with pytest.raises(Refused, match=line):
        probed(BY_NAME[name])


def test_a_row_that_was_not_refreshed_is_noticed() -> None:
    # Position 21 is stale: what it would be now is not what the cache holds.
    apart = probed(BY_NAME["llama"], [20, 21]).probe.reproduced
    assert apart[0] < 1e-5, "the first layer reads embeddings alone"
    assert apart[1:].min() > 1e-2
    assert apart.max() > 0.1


@pytest.mark.parametrize("tensor", ["keys", "values"])
def test_a_number_that_is_none_shows_as_not_reproduced(tensor: str) -> None:
    _, (repaired, replayed), model = probed(BY_NAME["llama"])
    getattr(repaired.layers[2], tensor)[0, 0, 20, 0] = torch.nan
    found = probe_residual(model, repaired, replayed, torch.tensor(DELETION.edited_ids), np.array([20, 50]))
    # Later layers of the row are computed from it.
    assert np.isnan(found.reproduced).tolist() == [False, False, True, True]
    assert found.found.violated[2].any()
    assert not found.found.violated[:2].any()


def _reading(draws: np.ndarray, scale: float) -> LayerReading:
    q, k, v = (torch.tensor(part) for part in np.split(draws, [6, 16]))
    visible = torch.arange(5) <= torch.tensor([[1], [4], [2]])
    return LayerReading(0, q.reshape(2, 3, -1), k.reshape(2, 5, -1), v.reshape(2, 5, -1), scale, visible)


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1e-6, 1e-3, 1.0, 30.0]), st.sampled_from([0.1, 1.0, 50.0]))
def test_holds_for_any_numbers(seed: int, apart: float, size: float) -> None:
    rng = np.random.default_rng(seed)
    replayed = size * rng.normal(size=(26, 4))
    repaired = replayed + apart * rng.normal(size=replayed.shape)
    assert not residual_bound(_reading(repaired, 0.5), _reading(replayed, 0.5)).violated.any()


def test_at_one_visible_key_the_value_term_is_the_error() -> None:
    rng = np.random.default_rng(0)
    repaired, replayed = (_reading(rng.normal(size=(26, 4)), 0.5) for _ in range(2))
    alone = torch.zeros(3, 5, dtype=torch.bool)
    alone[:, 0] = True
    found = residual_bound(repaired._replace(visible=alone), replayed._replace(visible=alone))
    expected = (repaired.values - replayed.values)[:, 0].norm(dim=-1).numpy()
    for part in (found.error, found.value_term):
        assert part == pytest.approx(np.repeat(expected[:, None], 3, axis=1))


def test_planted_faults_show_as_violations() -> None:
    rng = np.random.default_rng(1)
    replayed = rng.normal(size=(26, 4))
    repaired = replayed + 0.3 * rng.normal(size=replayed.shape)
    right = residual_bound(_reading(repaired, 0.5), _reading(replayed, 0.5))
    assert not right.violated.any()
    # A factor 1 / sqrt(d) too many on one side only.
    assert residual_bound(_reading(repaired, 0.25), _reading(replayed, 0.5)).violated.any()
    for fault in (
        {"error": right.measured * 1.001},
        {"bound": right.measured * 0.999},
        {"measured": right.error * 0.999},
    ):
        assert right._replace(**fault).violated.all()
    planted = right.error.copy()
    planted[1, 2] = right.bound[1, 2] + 1
    assert np.argwhere(right._replace(error=planted).violated).tolist() == [[1, 2]]


@pytest.mark.parametrize("part", ["error", "measured", "bound", "largest_value"])
def test_nan_is_a_violation(part: str) -> None:
    rng = np.random.default_rng(2)
    replayed = rng.normal(size=(26, 4))
    right = residual_bound(_reading(replayed + 0.1, 0.5), _reading(replayed, 0.5))
    planted = getattr(right, part).copy()
    planted[1, 2] = np.nan
    assert np.argwhere(right._replace(**{part: planted}).violated).tolist() == [[1, 2]]
