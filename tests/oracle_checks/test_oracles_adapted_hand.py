"""The prior-work-derived signals against cases worked out by hand, and their tensors against plain facts."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from oracles import adapted, signals
from oracles.speccache import auxiliary_of, marked_tokens, normalised, smooth_spans, speccache_select
from support.tiny_models import BY_NAME, build

# Two layers, one head, two query rows; keys: one of the prefix, three of the suffix, two of the query.
# Suffix token 0 is seen once, strongly; tokens 1 and 2 are seen evenly.
QUERY = np.array(
    [
        [[[0.125, 0.5, 0.1875, 0.1875, 0.0, 0.0], [0.25, 0.0, 0.1875, 0.1875, 0.25, 0.125]]],
        [[[0.5, 0.0, 0.1875, 0.1875, 0.125, 0.0], [0.5, 0.0, 0.1875, 0.1875, 0.0, 0.125]]],
    ]
)


def test_prophetkv():
    # means over 2 x 1 x 2 values: 0.5 / 4, 0.75 / 4, 0.75 / 4
    scores = signals.prophetkv_scores(QUERY, 1, 3)
    assert scores.tolist() == [0.125, 0.1875, 0.1875]
    assert signals.top(scores, 1) == [1]  # tie of 1 and 2
    assert signals.top(scores, 2) == [1, 2]


def test_infoflow():
    # sqrt(0.5^2) = 0.5; sqrt(4 x 0.1875^2) = 2 x 0.1875 = 0.375
    scores = signals.infoflow_scores(QUERY, 1, 3)
    assert scores.tolist() == [0.5, 0.375, 0.375]
    assert signals.top(scores, 1) == [0]
    assert signals.top(scores, 2) == [0, 1]  # tie of 1 and 2


def test_a3():
    # layer 1 only: 0 + 0; 0.1875 x 2; 0.1875 x 2
    scores = signals.a3_scores(QUERY, 1, 3)
    assert scores.tolist() == [0.0, 0.375, 0.375]
    assert signals.top(scores, 1) == [1]
    two_heads = np.concatenate([QUERY, QUERY[:, :, :, [0, 2, 1, 3, 4, 5]]], axis=1)
    # the second head swaps tokens 0 and 1: 0 + 0.375; 0.375 + 0; 0.375 + 0.375
    assert signals.a3_scores(two_heads, 1, 3).tolist() == [0.375, 0.375, 0.75]


def test_cache_craft():
    # one prefix key, two deleted ones, two suffix tokens; mass on the deleted keys per layer:
    # token 0: 0.25 + 0.25 and 0.25 + 0, mean 0.375; token 1: 0.125 + 0.125 and 0.5 + 0.25, mean 0.5
    attention = np.array(
        [
            [[[0.25, 0.25, 0.25, 0.25, 0.0], [0.5, 0.125, 0.125, 0.125, 0.125]]],
            [[[0.5, 0.25, 0.0, 0.25, 0.0], [0.0, 0.5, 0.25, 0.125, 0.125]]],
        ]
    )
    scores = signals.cache_craft_scores(attention, 1, 2)
    assert scores.tolist() == [0.375, 0.5]
    assert signals.top(scores, 1) == [1]


def caches():
    """Two layers, one head, two dimensions; a prefix row and two suffix rows."""
    shifted = [(np.zeros((1, 3, 2)), np.zeros((1, 3, 2))) for _ in range(2)]
    fresh = [(np.zeros((1, 3, 2)), np.zeros((1, 3, 2))) for _ in range(2)]
    shifted[1][0][0] = [[9, 9], [1, 2], [3, 0]]
    fresh[1][0][0] = [[0, 0], [1, 0], [0, 0]]
    fresh[1][1][0] = [[0, 0], [1, 0], [0, 0]]
    shifted[0][0][0] = [[0, 0], [0, 4], [0, 0]]
    return shifted, fresh


def test_cacheblend():
    # layer 1: token 0 |(0, 2)|^2 + |(-1, 0)|^2 = 4 + 1; token 1 |(3, 0)|^2 = 9; the prefix row has no score
    scores = signals.cacheblend_scores(*caches(), 1)
    assert scores.tolist() == [5, 9]
    assert signals.top(scores, 1) == [1]


def test_clean_state_oracle():
    # layer 0 adds 4^2 = 16 to token 0: sqrt(5 + 16) and sqrt(9)
    scores = signals.clean_state_scores(*caches(), 1)
    assert scores.tolist() == [math.sqrt(21), 3]
    assert signals.top(scores, 1) == [0]


@pytest.mark.parametrize(
    ("S", "B", "chunk", "expected"),
    [
        (7, 4, 3, [0, 1, 3, 6]),  # depth 0: 0, 3, 6; depth 1: 1, 4; depth 2: 2, 5
        (7, 5, 3, [0, 1, 3, 4, 6]),
        (7, 6, 3, [0, 1, 2, 3, 4, 6]),  # the last chunk, of one token, is used up
        (1030, 4, 512, [0, 1, 512, 1024]),
        (1030, 21, 512, [*range(8), *range(512, 519), *range(1024, 1030)]),  # 6 depths of 3, 6 and 518, 7
        (5, 0, 512, []),
    ],
)
def test_legolink(S, B, chunk, expected):
    assert signals.legolink(S, B, chunk) == expected


@pytest.mark.parametrize(("S", "bins"), [(0, 0), (1, 0), (2, 1), (3, 1), (4, 1), (5, 1), (6, 2), (9, 2), (10, 3)])
def test_low_pass_bins(S, bins):
    # S = 6: floor(0.5 x 4); S = 9: floor(0.5 x 5); S = 10: floor(0.5 x 6)
    assert signals.low_pass_bins(S) == bins


def test_cachetune():
    # S = 6 keeps bins 0 and 1: 2 + cos(2 pi t / 6) stays, 3 (-1)^t (bin 3) goes
    wave = np.array([1, 0.5, -0.5, -1, -0.5, 0.5])
    K = (2 + wave + 3 * np.array([1, -1, 1, -1, 1, -1])).reshape(1, 6, 1)
    kept = np.array([3, 2.5, 1.5, 1, 1.5, 2.5])  # adds up to 12
    np.testing.assert_allclose(signals.low_pass(K)[0, :, 0], kept, atol=1e-12)
    zero = np.zeros((1, 6, 1))
    np.testing.assert_allclose(signals.cachetune_scores([K], [zero]), kept / 12, atol=1e-12)
    # constant V of norm 5 (3 and 4): (kept + 5) / 2 before normalisation, which adds up to 21
    V = np.tile([3.0, 4.0], (1, 6, 1))
    np.testing.assert_allclose(signals.cachetune_scores([K], [V]), (kept + 5) / 42, atol=1e-12)
    # a layer of zeros is uniform: mean of kept / 12 and 1 / 6
    both = signals.cachetune_scores([K, zero], [zero, zero])
    np.testing.assert_allclose(both, (kept / 12 + 1 / 6) / 2, atol=1e-12)
    assert signals.top(both, 3) == [0, 1, 5]
    assert signals.cachetune_scores([K[:, :1]], [V[:, :1]]).tolist() == [1.0]


def test_unrotate_half():
    # a quarter turn per position: (1, 0) is stored as scale x (0, 1) at 1, scale x (-1, 0) at 2; the third
    # dimension is neither turned nor scaled
    K = np.array([[[0, 2, 5], [-2, 0, 7]]])
    plain = signals.unrotate_half(K, [1, 2], [math.pi / 2], 2.0)
    np.testing.assert_allclose(plain, [[[1, 0, 5], [1, 0, 7]]], atol=1e-15)


def test_speccache():
    # scores 1, .9, .8, .5, 0, .6: steps .1 .1 .3 .5 .6, so spans 0-3, 4, 5
    norms = [20, 19, 18, 15, 10, 16]
    scores = normalised(norms)
    np.testing.assert_allclose(scores, [1, 0.9, 0.8, 0.5, 0, 0.6], atol=1e-15)
    assert smooth_spans(scores) == [[0, 1, 2, 3], [4], [5]]
    assert marked_tokens(scores, 2) == {0, 1}  # 2 of 4
    assert marked_tokens(scores, 3) == {0, 1, 2, 3}  # 3 of 4: completed, though token 5 scores more than token 3
    assert marked_tokens(scores, 9) == {0, 1, 2, 3, 4, 5}
    aux = [(2 * k, 2 * k + 2) for k in range(6)]
    # midpoints 3, 7, 9, 10.5, 11.5: auxiliary tokens 1, 3, 4, 5, 5 with scores .9 .5 0 .6 .6
    target = [(0, 6), (6, 8), (8, 10), (10, 11), (11, 12)]
    assert auxiliary_of(aux, target) == [1, 3, 4, 5, 5]
    assert speccache_select(norms, aux, target, 3) == [0, 1, 3]  # marked 0 and 1, then the earlier of 3 and 4
    # B = 4: tokens 0, 1, 2, 5 are the best, 3 is completed: targets 0, 1, 3, 4
    assert speccache_select(norms, aux, target, 4) == [0, 1, 3, 4]
    # more than B: one target per auxiliary token, the three best of 0-3
    assert speccache_select(norms, aux, aux, 3) == [0, 1, 2]
    # equal norms: scores 0, one span; of 5 tokens the first 4 are 80 %, so all are marked, the first 4 kept
    assert speccache_select([7] * 5, aux[:5], aux[:5], 4) == [0, 1, 2, 3]


def test_speccache_span_limit_and_midpoints():
    assert [len(span) for span in smooth_spans([0.5] * 35)] == [16, 16, 3]
    aux = [(2, 4), (4, 4), (4, 6), (9, 12)]
    # midpoint 1: before all; 4: a boundary, right, past the zero-width token; none: as before; 7.5: a gap
    assert auxiliary_of(aux, [(1, 1), (0, 2), (3, 5), (5, 5), (7, 8), (8, 14), (14, 20)]) == [0, 0, 2, 2, 2, 3, 3]


@pytest.mark.parametrize("name", ["llama", "gemma3"])
def test_attention_rows_sum_to_one_and_queries_see_the_cache(name):
    model, ids = build(BY_NAME[name]), list(range(3, 43))
    before = model.config._attn_implementation
    full = adapted.visible_attention(model, [], ids, 0)
    assert full.shape == (4, 6, 40, 40)
    assert full.dtype == np.float64
    np.testing.assert_allclose(full.sum(-1), 1, atol=1e-6)
    assert np.abs(np.triu(full, 1)).max() == 0
    rows = adapted.fresh_rows(model, ids[:33])
    assert [k.shape[2] for k, _ in rows] == [33] * 4  # sliding layers too
    np.testing.assert_allclose(adapted.visible_attention(model, rows, ids[33:], 33), full[:, :, 33:], atol=1e-7)
    assert model.config._attn_implementation == before
    assert next(model.parameters()).dtype == torch.float32


@pytest.mark.parametrize(("layers", "used"), [(2, 1), (4, 1), (6, 2)])
def test_hidden_norms(layers, used):
    model = build(dataclasses.replace(BY_NAME["llama"], overrides={"num_hidden_layers": layers}))
    ids = list(range(3, 15))
    outputs = adapted.layer_outputs(model, ids)
    assert len(outputs) == layers
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([ids])).logits[0].numpy()
        again = model.lm_head(model.model.norm(torch.tensor(outputs[-1]).float())).numpy()
    np.testing.assert_allclose(again, logits, rtol=1e-4, atol=1e-4)  # the last output stands before the final norm
    expected = sum(np.linalg.norm(x, axis=-1) for x in outputs[layers - used :]) / used
    np.testing.assert_allclose(adapted.hidden_norms(model, ids), expected, rtol=1e-12)
