"""Plausible faults in the signals, margins and effects of an in-place edit, on a random Llama in FP32.

Each case runs a second implementation twice: without a fault it agrees with the oracle, with it it does not.
"""

import inspect
import itertools

import numpy as np
import pytest
import torch
from transformers import DynamicCache

from oracles import adapted, llama
from oracles import edit_policies as policies
from support.tiny_models import BY_NAME, build

OLD = list(range(20, 44))
N, START, STOP = len(OLD), 6, 8  # the edit is [6, 8)
NEW = [*OLD[:START], 150, 161, *OLD[STOP:]]
QUERY = [100, 104, 109]
SPAN = range(START, STOP)


@pytest.fixture(scope="module")
def model():
    return build(BY_NAME["llama"])


@pytest.fixture(scope="module")
def stale(model):
    return adapted.fresh_rows(model, OLD)


@pytest.fixture(scope="module")
def clean(model):
    return adapted.fresh_rows(model, NEW)


@pytest.fixture(scope="module")
def base(model, stale):
    return policies.refresh_rows(model, stale, NEW, SPAN)


def distance(a, b):
    return max(float((x - y).abs().max()) for one, two in zip(a, b, strict=True) for x, y in zip(one, two, strict=True))


def decoder(model):
    weights = {name: value.double().numpy() for name, value in model.state_dict().items()}
    c = model.config
    cfg = {
        "hidden": c.hidden_size,
        "layers": c.num_hidden_layers,
        "heads": c.num_attention_heads,
        "kv_heads": c.num_key_value_heads,
        "head_dim": c.head_dim,
        "rope_theta": c.rope_parameters["rope_theta"],
        "eps": c.rms_norm_eps,
    }
    return weights, cfg


def as_numpy(kv):
    return [k[0].numpy() for k, _ in kv], [v[0].numpy() for _, v in kv]


def as_rows(K, V):
    return [(torch.tensor(k)[None], torch.tensor(v)[None]) for k, v in zip(K, V, strict=True)]


def other_attention(model, kv, fault):
    """The model's own attention in FP32."""
    cache = DynamicCache()
    for layer, (k, v) in enumerate(kv):
        cache.update(k.float(), v.float(), layer)
    plain = adapted.eager_copy(model).float()
    name = "cache" if "cache" in inspect.signature(plain.forward).parameters else "past_key_values"
    at = 0 if fault == "positions from 0" else N
    with torch.no_grad():
        output = plain(
            input_ids=torch.tensor([QUERY]),
            position_ids=torch.arange(at, at + len(QUERY))[None],
            output_attentions=True,
            **{name: cache},
        )
    a = torch.cat(output.attentions).double().numpy()  # [layers, heads, query, N + query]
    context = a[..., :N]
    if fault == "renormalised over the context":
        context = context / context.sum(-1, keepdims=True)
    if fault == "renormalised over the pool":
        context = context / context[..., STOP : N - 1].sum(-1, keepdims=True)
    if fault == "last query token":
        context = context[:, :, -1:]
    if fault == "last layer":
        context = context[-1:]
    if fault == "second layer":
        context = context[1:2]
    if fault == "summed":
        return context.sum((0, 1, 2))
    if fault == "largest head":
        return context.max(1).mean((0, 1))
    if fault == "root mean square":
        return np.sqrt((context**2).mean((0, 1, 2)))
    return context.mean((0, 1, 2))


ATTENTION_FAULTS = [
    "positions from 0",
    "renormalised over the context",
    "renormalised over the pool",
    "last query token",
    "last layer",
    "second layer",
    "summed",
    "largest head",
    "root mean square",
    "clean cache",
    "refreshed span",
]


@pytest.mark.parametrize("fault", ATTENTION_FAULTS)
def test_attention_fault(model, stale, clean, base, fault):
    truth = policies.attention_scores(model, stale, QUERY)
    np.testing.assert_allclose(other_attention(model, stale, None), truth, atol=1e-6)
    kv = {"clean cache": clean, "refreshed span": base}.get(fault, stale)
    assert abs(other_attention(model, kv, fault) - truth).max() > 1e-4


def test_attention_over_a_prefill_is_that_of_one_forward(model, stale):
    full = adapted.visible_attention(model, [], [*OLD, *QUERY], 0)
    np.testing.assert_allclose(
        full[:, :, N:, :N].mean((0, 1, 2)), policies.attention_scores(model, stale, QUERY), atol=1e-6
    )
    assert policies.attention_scores(model, stale, QUERY).sum() < 1  # the query's own tokens take their share


def other_cacheblend(model, fault):
    layer = {"first layer": 0, "third layer": 2}.get(fault, 1)
    with torch.no_grad():
        (old_k, old_v), (new_k, new_v) = (
            (cache.layers[layer].keys[0].double(), cache.layers[layer].values[0].double())
            for cache in (model(input_ids=torch.tensor([ids]), use_cache=True).past_key_values for ids in (OLD, NEW))
        )
    dk, dv = ((x - y).permute(1, 0, 2).reshape(N, -1).numpy() for x, y in ((old_k, new_k), (old_v, new_v)))
    squares = [(dk**2).sum(1), (dv**2).sum(1)]
    if fault == "keys only":
        squares.pop()
    if fault == "values only":
        squares = squares[1:]
    if fault == "norms added":
        return np.sqrt(squares[0]) + np.sqrt(squares[1])
    if fault == "root of the sum":
        return np.sqrt(sum(squares))
    if fault == "mean of squares":
        return sum(squares) / dk.shape[1]
    return abs(dk).sum(1) + abs(dv).sum(1) if fault == "absolute" else sum(squares)


@pytest.mark.parametrize(
    "fault",
    [
        "first layer",
        "third layer",
        "keys only",
        "values only",
        "norms added",
        "root of the sum",
        "mean of squares",
        "absolute",
    ],
)
def test_cacheblend_fault(model, fault):
    truth = policies.cacheblend_scores(model, OLD, NEW)
    np.testing.assert_allclose(other_cacheblend(model, None), truth, rtol=1e-3, atol=1e-6)
    assert truth[:START].max() < 1e-6  # upstream does not depend on the edit
    assert not np.allclose(other_cacheblend(model, fault), truth, rtol=1e-2, atol=1e-6)


WORDS_NEW, WORDS_OLD = [30, 77, 181], [55, 12]


def other_margin(model, kv, fault):
    """One token at a time through the NumPy decoder, each answer token scored before it is read."""
    weights, cfg = decoder(model)
    query = QUERY[1:] if fault == "query's first token left out" else QUERY

    def score(answer):
        hidden, K, V = llama.forward(weights, cfg, query, *as_numpy(kv))
        found = []
        for token in answer:
            logits = llama.logits(weights, hidden[-1])
            z = logits - logits.max()
            p = np.exp(z) / np.exp(z).sum()
            found.append(
                logits[token] if fault == "raw logits" else p[token] if fault == "probabilities" else np.log(p[token])
            )
            read = int(p.argmax()) if fault == "free running" else token
            hidden, K, V = llama.forward(weights, cfg, [read], K, V)
            if fault == "one row late":
                logits = llama.logits(weights, hidden[-1])
                z = logits - logits.max()
                found[-1] = z[token] - np.log(np.exp(z).sum())
        if fault == "first token only":
            return found[0]
        if fault == "last token only":
            return found[-1]
        return np.sum(found) if fault == "sum" else np.mean(found)

    new, old = score(WORDS_NEW), score(WORDS_OLD)
    if fault == "old less new":
        return old - new
    return new if fault == "new alone" else new - old


@pytest.mark.parametrize(
    "fault",
    [
        "sum",
        "old less new",
        "new alone",
        "one row late",
        "first token only",
        "last token only",
        "free running",
        "raw logits",
        "probabilities",
        "query's first token left out",
    ],
)
def test_margin_fault(model, base, fault):
    truth = policies.margin(model, base, QUERY, WORDS_OLD, WORDS_NEW)
    assert other_margin(model, base, None) == pytest.approx(truth, abs=1e-5)
    assert other_margin(model, base, fault) != pytest.approx(truth, abs=1e-2)


POSITIONS = policies.pool(START, STOP, N)


def other_effects(model, stale, clean, base, fault):
    """Each row spliced by concatenation, margins from the NumPy decoder."""
    kv = stale if fault == "span left stale" else base
    source = base if fault == "rows of the base" else clean
    if fault == "rows recomputed":
        source = None
    before = other_margin(model, stale if fault == "against the stale margin" else kv, None)
    after, mixed = [], kv
    for i in POSITIONS:
        if fault != "cumulative":
            mixed = kv
        given = policies.refresh_rows(model, kv, NEW, [i]) if source is None else source
        i += fault == "next row"
        mixed = [
            tuple(
                torch.cat([x[:, :, :i], y[:, :, i : i + 1], x[:, :, i + 1 :]], dim=2)
                for x, y in zip(one, two, strict=True)
            )
            for one, two in zip(mixed, given, strict=True)
        ]
        if fault == "keys only":
            mixed = [(k, v) for (k, _), (_, v) in zip(mixed, kv, strict=True)]
        after.append(other_margin(model, mixed, None))
    if fault == "margin, not its change":
        return np.array(after)
    if fault == "other way round":
        return before - np.array(after)
    return abs(np.array(after) - before) if fault == "magnitude" else np.array(after) - before


EFFECT_FAULTS = [
    "span left stale",
    "against the stale margin",
    "rows of the base",
    "rows recomputed",
    "cumulative",
    "next row",
    "keys only",
    "margin, not its change",
    "other way round",
    "magnitude",
]


@pytest.fixture(scope="module")
def effects(model, base, clean):
    return np.array(policies.causal_effects(model, base, clean, POSITIONS, QUERY, WORDS_OLD, WORDS_NEW))


def test_effects_agree(model, stale, clean, base, effects):
    np.testing.assert_allclose(other_effects(model, stale, clean, base, None), effects, atol=1e-5)


@pytest.mark.parametrize("fault", EFFECT_FAULTS)
def test_effects_fault(model, stale, clean, base, effects, fault):
    assert abs(other_effects(model, stale, clean, base, fault) - effects).max() > 1e-3


def other_two_stage(model, stale, query, k1, k2, fault):
    def best(scores, k, without=()):
        open_ = [i for i in POSITIONS if i not in without]
        return sorted(np.array(open_)[np.argsort(-scores[open_], kind="stable")[:k]].tolist())

    weights, cfg = decoder(model)

    def refreshed(kv, positions):
        return as_rows(*llama.refresh(weights, cfg, NEW, *as_numpy(kv), positions))

    def score(kv):
        return policies.attention_scores(model, kv, query)

    first = best(score(refreshed(stale, SPAN) if fault == "span refreshed before" else stale), k1)
    kv = refreshed(stale, first if fault == "span forgotten" else [*SPAN, *first])
    again = {"scored on the stale cache": stale, "scored on the span alone": refreshed(stale, SPAN)}.get(fault, kv)
    second = best(score(again), k2, () if fault == "first may come again" else first)
    if fault == "in one pass":
        return first, second, refreshed(stale, [*SPAN, *first, *second])
    if fault == "second from the stale cache":
        return first, second, refreshed(stale, second)
    if fault == "first recomputed":
        return first, second, refreshed(kv, [*SPAN, *first, *second])
    return first, second, refreshed(kv, second)


TWO_STAGE_FAULTS = [
    "span refreshed before",
    "span forgotten",
    "scored on the stale cache",
    "scored on the span alone",
    "first may come again",
    "in one pass",
    "second from the stale cache",
    "first recomputed",
]
QUERIES = [[100, 104, 109], [60, 61], [7, 190, 33], [145, 16], [88], [201, 3, 90, 91]]


@pytest.fixture(scope="module")
def two_stage_truth(model, stale):
    cases = list(itertools.product(QUERIES, [(4, 4), (2, 5)]))
    return [(q, *k, policies.two_stage(model, stale, NEW, q, START, STOP, *k)) for q, k in cases]


def same(found, truth):
    return found[:2] == truth[:2] and distance(found[2], truth[2]) < 1e-4


def test_two_stage_agrees(model, stale, two_stage_truth):
    for query, k1, k2, truth in two_stage_truth:
        assert len({*truth.first, *truth.second}) == k1 + k2
        assert same(other_two_stage(model, stale, query, k1, k2, None), truth)


@pytest.mark.parametrize("fault", TWO_STAGE_FAULTS)
def test_two_stage_fault(model, stale, two_stage_truth, fault):
    assert any(not same(other_two_stage(model, stale, q, k1, k2, fault), t) for q, k1, k2, t in two_stage_truth)
