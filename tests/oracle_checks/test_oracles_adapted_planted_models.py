"""Plausible faults in span completion and in the forwards behind the prior-work-derived signals.

Each case runs a second implementation twice: without a fault it agrees with the oracle, with it it does not.
"""

import copy
import itertools

import numpy as np
import pytest
import torch

from oracles import adapted, signals
from oracles.speccache import speccache_select
from support.tiny_models import BY_NAME, build


def other_speccache(norms, aux, target, B, fault):
    s = np.array(norms, dtype=np.float64)
    if fault != "not normalised":
        s = (s - s.min()) / (np.ptp(s) or 1)
    limit = {"no limit": len(s), "limit of 17": 17}.get(fault, 16)
    threshold = {"threshold 0.3": 0.3, "threshold 0.5": 0.5}.get(fault, 0.4)
    cuts = [0]
    for t in range(1, len(s)):
        before = s[cuts[-1]] if fault == "distance from the span's start" else s[t - 1]
        if abs(s[t] - before) > threshold or t - cuts[-1] == limit:
            cuts.append(t)
    best = np.zeros(len(s), dtype=bool)
    best[np.argsort(-s, kind="stable")[:B]] = True
    marked = best.copy()
    coverage = {"coverage 0.8": 0.8, "coverage 0.6": 0.6}.get(fault, 0.7)
    for start, stop in itertools.pairwise([*cuts, len(s)]):
        if fault != "no completion" and best[start:stop].mean() >= coverage:
            marked[start:stop] = True
        elif fault == "other spans dropped":
            marked[start:stop] = False
    ends = np.array([b for _, b in aux])  # adjacent spans: the holder is the first that ends after the midpoint
    middle = np.array([(a + b) / 2 for a, b in target])
    if fault == "start, not midpoint":
        middle = np.array([a for a, _ in target])
    side = "left" if fault == "boundary goes left" else "right"
    home = np.minimum(np.searchsorted(ends, middle, side=side), len(s) - 1)
    chosen = [t for t in range(len(target)) if marked[home[t]]]
    rest = [t for t in range(len(target)) if not marked[home[t]]]
    if fault != "cut in text order":
        chosen.sort(key=lambda t: -s[home[t]])
    if fault != "filled in text order":
        rest.sort(key=lambda t: -s[home[t]])
    return sorted((chosen + rest)[:B])


@pytest.mark.parametrize(
    "fault",
    [
        "no completion",
        "not normalised",
        "no limit",
        "limit of 17",
        "threshold 0.3",
        "threshold 0.5",
        "distance from the span's start",
        "coverage 0.8",
        "coverage 0.6",
        "other spans dropped",
        "start, not midpoint",
        "boundary goes left",
        "cut in text order",
        "filled in text order",
    ],
)
def test_speccache_fault(fault):
    differs = False
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(20, 50))
        norms = (np.cumsum(rng.normal(size=n)) + (seed % 2) * rng.normal(size=n) + 40).tolist()
        edges = np.concatenate([[0], np.cumsum(rng.integers(1, 6, size=n))])
        inner = np.sort(rng.choice(np.arange(1, edges[-1]), size=int(rng.integers(n // 2, n)), replace=False))
        aux = [(int(a), int(b)) for a, b in itertools.pairwise(edges)]
        target = [(int(a), int(b)) for a, b in itertools.pairwise([0, *inner, edges[-1]])]
        case = norms, aux, target, int(rng.integers(1, len(target)))
        truth = speccache_select(*case)
        assert len(truth) == case[3]
        assert other_speccache(*case, None) == truth
        differs = differs or other_speccache(*case, fault) != truth
    assert differs


p, e, s, q = (list(range(a, b)) for a, b in ((3, 12), (60, 66), (100, 112), (150, 154)))
P, D, S = len(p), len(e), len(s)


@pytest.fixture(scope="module")
def model():
    return build(BY_NAME["llama"])


@pytest.fixture(scope="module")
def shifted(model):
    """Rows of the dirty context without the deleted ones, later keys turned back by their width."""
    rows = adapted.fresh_rows(model, [*p, *e, *s])
    turns = [0] * P + [D] * S
    kept = [*range(P), *range(P + D, P + D + S)]
    frequencies = model.model.rotary_emb.inv_freq.double().numpy()
    return [
        (torch.tensor(signals.unrotate_half(k[0, :, kept], turns, frequencies))[None], v[:, :, kept]) for k, v in rows
    ]


def two_layers(model):
    short = copy.deepcopy(model)
    short.model.layers = short.model.layers[:2]
    short.config.num_hidden_layers = 2
    return short


def test_cache_craft_in_blocks(model):
    """Blocks with full access give the same; blocks that see only themselves and p + e do not."""
    truth = adapted.cache_craft_signal(model, p, e, s)
    dirty, found = [*p, *e, *s], []
    for start in range(P + D, len(dirty), 5):
        block = dirty[start : start + 5]
        a = adapted.visible_attention(model, adapted.fresh_rows(model, dirty[:start]), block, start)
        found.append(signals.cache_craft_scores(a, P, D))
    np.testing.assert_allclose(np.concatenate(found), truth, atol=1e-6)
    a = adapted.visible_attention(model, [], dirty, 0)[:, :, P + D :]
    row, key = np.arange(S)[:, None], np.arange(P + D + S)[None]
    windowed = np.where((key < P + D) | (key - P - D >= row // 5 * 5), a, 0)
    wrong = signals.cache_craft_scores(windowed / windowed.sum(-1, keepdims=True), P, D)
    np.testing.assert_allclose(wrong[:5], truth[:5], atol=1e-6)
    assert (wrong[5:] > truth[5:] + 1e-3).any()


def test_two_layers_are_enough_for_a3_and_cacheblend(model, shifted):
    a3, blend = adapted.a3_signal(model, p, s, q), adapted.cacheblend_signal(model, shifted, p, s)
    np.testing.assert_allclose(adapted.a3_signal(two_layers(model), p, s, q), a3, atol=1e-6)
    np.testing.assert_allclose(adapted.cacheblend_signal(two_layers(model), shifted[:2], p, s), blend, rtol=1e-5)
    # the first layer's keys and values know no context: nothing but rounding is left after the turn
    first = [shifted[0], shifted[0]], [adapted.fresh_rows(model, [*p, *s])[0]] * 2
    assert signals.cacheblend_scores(*(adapted.arrays(rows) for rows in first), P).max() < 1e-9
    assert blend.min() > 1e-3


def test_unturned_keys_are_seen(model, shifted):
    rows = adapted.fresh_rows(model, [*p, *e, *s])
    kept = [*range(P), *range(P + D, P + D + S)]
    unturned = [(k[:, :, kept], v[:, :, kept]) for k, v in rows]
    for signal in (adapted.cacheblend_signal, adapted.clean_state_signal):
        assert not np.allclose(signal(model, unturned, p, s), signal(model, shifted, p, s), rtol=1e-2)
    for signal in (adapted.prophetkv_signal, adapted.infoflow_signal):
        assert not np.allclose(signal(model, unturned, q, P), signal(model, shifted, q, P), rtol=1e-2)


def test_query_reads_the_cache_it_is_given(model, shifted):
    """Attention over Shift is not attention over a clean prefill, and the query stands right behind the rows."""
    clean = adapted.fresh_rows(model, [*p, *s])
    dirty_way = adapted.prophetkv_signal(model, shifted, q, P)
    clean_way = adapted.prophetkv_signal(model, clean, q, P)
    assert not np.allclose(dirty_way, clean_way, rtol=1e-2)
    full = adapted.visible_attention(model, [], [*p, *s, *q], 0)[:, :, P + S :]
    np.testing.assert_allclose(clean_way, signals.prophetkv_scores(full, P, S), atol=1e-6)
    a3_over_shift = signals.a3_scores(adapted.query_attention(model, shifted, q), P, S)
    assert not np.allclose(a3_over_shift, adapted.a3_signal(model, p, s, q), rtol=1e-2)
    assert adapted.clean_state_signal(model, clean, p, s).max() < 1e-4
    with pytest.raises(ValueError, match="start"):
        adapted.visible_attention(model, shifted, q, P + D + S)


@pytest.mark.parametrize("fault", ["after the final norm", "root mean square", "all layers", "embeddings"])
def test_hidden_norms_fault(model, fault):
    with torch.no_grad():
        states = model(input_ids=torch.tensor([s]), output_hidden_states=True).hidden_states
    norms = np.array([state[0].double().norm(dim=-1).numpy() for state in states])
    truth = adapted.hidden_norms(model, s)
    wrong = {
        "after the final norm": norms[-1],
        "root mean square": truth / np.sqrt(states[0].shape[-1]),
        "all layers": (norms[1:-1].sum(0) + truth) / 4,
        "embeddings": norms[0],
    }[fault]
    assert not np.allclose(wrong, truth, rtol=1e-3)
