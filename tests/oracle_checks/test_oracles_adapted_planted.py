"""Plausible faults in the prior-work-derived signals: each oracle must tell them apart.

Each case runs a second implementation twice: without a fault it agrees with the oracle, with it it does not.
"""

import numpy as np
import pytest

from oracles import signals

P, D, S, Q = 5, 4, 9, 3


def softmax_rows(rows, keys, seed):
    """Random attention of two heads in three layers; row r sees the keys up to keys - rows + r."""
    z = np.random.default_rng(seed).normal(size=(3, 2, rows, keys)) * 2
    e = np.exp(z) * np.tri(rows, keys, keys - rows)
    return e / e.sum(-1, keepdims=True)


def other_query_scores(method, a, fault):
    a = a[..., :S] if fault == "prefix columns" else a[..., P : P + S]
    if fault == "renormalised":
        a = a / a.sum(-1, keepdims=True)
    if fault == "last query token":
        a = a[:, :, -1:]
    if method == "prophetkv":
        if fault == "maximum over heads":
            return a.max(1).mean((0, 1))
        return a.sum((0, 1, 2)) if fault == "sum" else a.mean((0, 1, 2))
    if method == "a3":
        if fault == "all layers":
            return a.sum((0, 1, 2))
        a = a[0 if fault == "layer 0" else 1]
        return a.mean((0, 1)) if fault == "mean" else a.sum((0, 1))
    if fault == "mass":
        return a.sum((0, 1, 2))
    if fault == "heads averaged first":
        a = a.mean(1, keepdims=True)
    squares = (a**2).sum((0, 1, 2))
    return squares if fault == "no root" else np.sqrt(squares)


QUERY_SCORES = {
    "prophetkv": signals.prophetkv_scores,
    "infoflow": signals.infoflow_scores,
    "a3": signals.a3_scores,
}
SHARED = ("renormalised", "prefix columns", "last query token")


@pytest.mark.parametrize(
    ("method", "fault"),
    [
        *((method, fault) for method in QUERY_SCORES for fault in SHARED),
        ("prophetkv", "sum"),
        ("prophetkv", "maximum over heads"),
        ("infoflow", "mass"),
        ("infoflow", "no root"),
        ("infoflow", "heads averaged first"),
        ("a3", "layer 0"),
        ("a3", "all layers"),
        ("a3", "mean"),
    ],
)
def test_query_attention_fault(method, fault):
    a = softmax_rows(Q, P + S + Q, 1)
    truth = QUERY_SCORES[method](a, P, S)
    np.testing.assert_allclose(other_query_scores(method, a, None), truth, rtol=1e-12)
    assert not np.allclose(other_query_scores(method, a, fault), truth, rtol=1e-3)


def test_renormalising_changes_supports():
    """A query row that hardly reads the suffix counts little, unless it is renormalised."""
    a = np.array([[[[0.25, 0.5, 0.25, 0, 0], [0.9375, 0, 0.0625, 0, 0]]]])
    truth = signals.prophetkv_scores(a, 1, 2)  # 0.25, 0.15625; renormalised 1/3, 2/3
    again = a[..., 1:3] / a[..., 1:3].sum(-1, keepdims=True)
    assert signals.top(truth, 1) == [0]
    assert signals.top(again.mean((0, 1, 2)), 1) == [1]


def other_cache_craft(a, fault):
    if fault == "without the suffix keys":
        a = a[..., : P + D] / a[..., : P + D].sum(-1, keepdims=True)
    first = P - 1 if fault == "one key early" else P
    mass = a[..., first : first + D]
    mass = mass.mean(-1) if fault == "mean over the keys" else mass.sum(-1)
    if fault == "sum over layers":
        return mass.mean(1).sum(0)
    return mass.max(1).mean(0) if fault == "maximum over heads" else mass.mean((0, 1))


@pytest.mark.parametrize(
    "fault",
    ["without the suffix keys", "one key early", "mean over the keys", "sum over layers", "maximum over heads"],
)
def test_cache_craft_fault(fault):
    a = softmax_rows(S, P + D + S, 2)
    truth = signals.cache_craft_scores(a, P, D)
    np.testing.assert_allclose(other_cache_craft(a, None), truth, rtol=1e-12)
    assert not np.allclose(other_cache_craft(a, fault), truth, rtol=1e-3)


def other_deviation(method, shifted, fresh, fault):
    parts = [0] if fault == "keys only" else [0, 1]
    squares = np.array(
        [[((a[x] - b[x])[:, P:] ** 2).sum((0, 2)) for x in parts] for a, b in zip(shifted, fresh, strict=True)]
    )  # [layers, parts, S]
    if fault == "norms added":
        return np.sqrt(squares).sum((0, 1)) if method == "clean" else np.sqrt(squares[1]).sum(0)
    if method == "clean":
        if fault == "layer norms added":
            return np.sqrt(squares.sum(1)).sum(0)
        if fault == "layer 1 only":
            return np.sqrt(squares[1].sum(0))
        return squares.sum((0, 1)) if fault == "no root" else np.sqrt(squares.sum((0, 1)))
    if fault == "all layers":
        return squares.sum((0, 1))
    layer = squares[0 if fault == "layer 0" else 1]
    return layer.mean(0) if fault == "mean" else layer.sum(0)


@pytest.mark.parametrize(
    ("method", "fault"),
    [
        ("blend", "keys only"),
        ("blend", "norms added"),
        ("blend", "all layers"),
        ("blend", "layer 0"),
        ("blend", "mean"),
        ("clean", "keys only"),
        ("clean", "norms added"),
        ("clean", "layer norms added"),
        ("clean", "layer 1 only"),
        ("clean", "no root"),
    ],
)
def test_deviation_fault(method, fault):
    rng = np.random.default_rng(3)
    shifted, fresh = ([tuple(rng.normal(size=(2, 2, P + S, 4))) for _ in range(3)] for _ in range(2))
    truth = (signals.clean_state_scores if method == "clean" else signals.cacheblend_scores)(shifted, fresh, P)
    np.testing.assert_allclose(other_deviation(method, shifted, fresh, None), truth, rtol=1e-12)
    assert not np.allclose(other_deviation(method, shifted, fresh, fault), truth, rtol=1e-3)


def other_top(scores, B, fault):
    rules = {
        "later ties": lambda i: (-scores[i], -i),
        "lowest": lambda i: (scores[i], i),
        "magnitude": lambda i: (-abs(scores[i]), i),
    }
    chosen = sorted(range(len(scores)), key=rules.get(fault, lambda i: (-scores[i], i)))[:B]
    return chosen if fault == "rank order" else sorted(chosen)


@pytest.mark.parametrize("fault", ["later ties", "lowest", "magnitude", "rank order"])
def test_top_fault(fault):
    case = [1.0, 3.0, 2.0, 5.0, 2.0, -4.0, 2.0], 3
    assert other_top(*case, None) == signals.top(*case)
    assert other_top(*case, fault) != signals.top(*case)


def other_legolink(suffix_length, B, prefix, fault):
    chunk = 510 if fault == "short chunks" else 512
    offset = prefix if fault == "prefix chunked too" else 0
    at = np.arange(suffix_length) + offset
    depth, index = at % chunk, at // chunk
    if fault == "chunk by chunk":
        order = np.lexsort((depth, index))
    elif fault == "last chunk first":
        order = np.lexsort((-index, depth))
    elif fault == "deepest first":
        order = np.lexsort((index, chunk - 1 - depth))
    else:
        order = np.lexsort((index, depth))
    return sorted(order[:B].tolist())


@pytest.mark.parametrize(
    "fault", ["prefix chunked too", "chunk by chunk", "last chunk first", "deepest first", "short chunks"]
)
def test_legolink_fault(fault):
    case = (1100, 32)
    assert other_legolink(*case, 40, None) == signals.legolink(*case)
    assert other_legolink(*case, 40, fault) != signals.legolink(*case)


FREQUENCIES = np.array([1.0, 0.3])
SCALE = 1.2


def rotated(K, positions):
    """Rotate and scale by the four-number form of a half-split rotary embedding, the last dimension aside."""
    cos, sin = (f(np.outer(positions, FREQUENCIES)) * SCALE for f in (np.cos, np.sin))
    a, b = K[..., :2], K[..., 2:4]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin, K[..., 4:]], axis=-1)


def other_cachetune(K, V, fault):
    n = K.shape[2]
    bins = {"one bin more": 1, "one bin fewer": -1}.get(fault, 0) + int(0.5 * (n // 2 + 1))
    if fault == "quarter of the tokens":
        bins = n // 4

    def smooth(x):
        spectrum = np.fft.rfft(x, axis=2)
        if fault == "high-pass":
            spectrum[:, :, :bins] = 0
        elif fault != "no low-pass":
            spectrum[:, :, bins:] = 0
        return np.fft.irfft(spectrum, axis=2) if fault == "default length" else np.fft.irfft(spectrum, n=n, axis=2)

    power = [(smooth(x) ** 2).sum((1, 3)) for x in (K, V)]  # [layers, S]
    if fault == "squared norms":
        raw = sum(power) / 2
    elif fault == "joint norm":
        raw = np.sqrt(sum(power))
    elif fault == "keys only":
        raw = np.sqrt(power[0])
    else:
        raw = sum(np.sqrt(x) for x in power) / 2
    return raw.mean(0) if fault == "layers not normalised" else (raw / raw.sum(1, keepdims=True)).mean(0)


@pytest.mark.parametrize(
    "fault",
    [
        "one bin more",
        "one bin fewer",
        "quarter of the tokens",
        "high-pass",
        "no low-pass",
        "default length",
        "squared norms",
        "joint norm",
        "keys only",
        "layers not normalised",
        "rotary kept",
        "turned the wrong way",
        "scale kept",
    ],
)
def test_cachetune_fault(fault):
    n, rng = 19, np.random.default_rng(4)  # 5 bins; 19 // 4 are 4
    plain, V = rng.normal(size=(3, 2, n, 5)) + 1, rng.normal(size=(3, 2, n, 5))
    V[1] *= 5
    at = np.arange(P, P + n)
    stored = np.array([rotated(k, at) for k in plain])
    undo = [signals.unrotate_half(k, at, FREQUENCIES, SCALE) for k in stored]
    np.testing.assert_allclose(undo, plain, rtol=1e-9, atol=1e-12)
    truth = signals.cachetune_scores(undo, V)
    np.testing.assert_allclose(other_cachetune(plain, V, None), truth, rtol=1e-9)
    wrong = {
        "rotary kept": lambda: stored / SCALE,
        "turned the wrong way": lambda: np.array([signals.unrotate_half(k, -at, FREQUENCIES, SCALE) for k in stored]),
        "scale kept": lambda: np.array([signals.unrotate_half(k, at, FREQUENCIES) for k in stored]),
    }
    keys = wrong[fault]() if fault in wrong else plain
    found = other_cachetune(keys, V, fault)
    assert found.shape != truth.shape or not np.allclose(found, truth, rtol=1e-3)


def test_cachetune_does_not_depend_on_a_common_offset():
    """Turning every key of a head alike commutes with the low-pass and keeps norms: dirty positions do as well."""
    rng = np.random.default_rng(5)
    K, V = rng.normal(size=(1, 2, 12, 5)), rng.normal(size=(1, 2, 12, 5))
    at = np.arange(P, P + 12)
    one, other = ([signals.unrotate_half(K[0], at + by, FREQUENCIES)] for by in (0, D))
    np.testing.assert_allclose(signals.cachetune_scores(one, V), signals.cachetune_scores(other, V), rtol=1e-12)
