"""Plausible faults in attention and the decoder: layer-major packing agrees, its faulty forms do not."""

import numpy as np
import pytest

from oracles import llama
from oracles.attention import indexed_attention

U = [1, 2, 5, 6]


def other_attention(q, K, V, u, scale, window=None, softcap=None, sinks=None, fault=None):
    heads, rows, _ = q.shape
    kv, length = K.shape[:2]
    groups = np.arange(heads) % kv if fault == "interleaved groups" else np.arange(heads) // (heads // kv)
    z = np.einsum("hrd,hjd->hrj", q, K[groups]) * (1.0 if fault == "no scale" else scale)
    if softcap is not None and fault != "no softcap":
        z = softcap * np.tanh(z / softcap)
    j, at = np.arange(length)[None, :], np.array(u)[:, None]
    if fault == "bottom-right mask":
        at = np.arange(length - rows, length)[:, None]
    if fault == "top-left mask":
        at = np.arange(rows)[:, None]
    seen = j < at if fault == "blind to itself" else j <= at
    if fault == "future":
        seen = j >= 0
    if fault == "packed keys only":
        seen = seen & np.isin(j, u)
    if window is not None and fault != "no window":
        seen = seen & (j >= at - window if fault == "window too wide" else j > at - window)
        if fault == "window too narrow":
            seen = seen & (j > at - window + 1)
    e = np.where(seen, np.exp(z), 0.0)
    total = e.sum(-1, keepdims=True)
    if sinks is not None and fault != "no sinks":
        total = total + np.exp(np.array(sinks) * (scale if fault == "scaled sinks" else 1))[:, None, None]
    return np.einsum("hrj,hjd->hrd", e / total, V[groups])


@pytest.mark.parametrize(
    ("fault", "options"),
    [
        ("bottom-right mask", {}),
        ("top-left mask", {}),
        ("blind to itself", {}),
        ("future", {}),
        ("packed keys only", {}),
        ("interleaved groups", {}),
        ("no scale", {}),
        ("no window", {"window": 3}),
        ("window too wide", {"window": 3}),
        ("window too narrow", {"window": 3}),
        ("no softcap", {"softcap": 2.0}),
        ("no sinks", {"sinks": [0.5, -1.0, 2.0, 0.0]}),
        ("scaled sinks", {"sinks": [0.5, -1.0, 2.0, 0.0]}),
    ],
)
def test_attention_fault(fault, options):
    rng = np.random.default_rng(0)
    q, K, V = rng.normal(size=(4, 4, 6)), rng.normal(size=(2, 9, 6)), rng.normal(size=(2, 9, 5))
    truth = indexed_attention(q, K, V, U, 0.4, **options)
    np.testing.assert_allclose(other_attention(q, K, V, U, 0.4, **options), truth, atol=1e-13)
    assert abs(other_attention(q, K, V, U, 0.4, **options, fault=fault) - truth).max() > 1e-3


def random_model(qk_norm=False, bias=False):
    cfg = {
        "hidden": 12,
        "layers": 3,
        "heads": 4,
        "kv_heads": 2,
        "head_dim": 6,
        "rope_theta": 50.0,
        "eps": 1e-5,
    }
    rng = np.random.default_rng(3)
    w = {
        "model.embed_tokens.weight": rng.normal(size=(20, 12)),
        "model.norm.weight": rng.uniform(0.5, 1.5, 12),
    }
    for layer in range(3):
        at = f"model.layers.{layer}."
        for norm in ("input_layernorm", "post_attention_layernorm"):
            w[at + norm + ".weight"] = rng.uniform(0.5, 1.5, 12)
        shapes = {"q": (24, 12), "k": (12, 12), "v": (12, 12), "o": (12, 24)}
        for name, shape in shapes.items():
            w[at + f"self_attn.{name}_proj.weight"] = rng.normal(size=shape) / 3
            if bias and name != "o":
                w[at + f"self_attn.{name}_proj.bias"] = rng.normal(size=shape[0])
        for name, shape in {"gate": (16, 12), "up": (16, 12), "down": (12, 16)}.items():
            w[at + f"mlp.{name}_proj.weight"] = rng.normal(size=shape) / 3
        if qk_norm:
            w |= {at + f"self_attn.{name}_norm.weight": rng.uniform(0.5, 1.5, 6) for name in "qk"}
    return w, cfg


IDS = [3, 7, 1, 19, 4, 4, 11, 8, 2, 15]
PREFIX, DELETED = 2, 3
EDITED = IDS[:PREFIX] + IDS[PREFIX + DELETED :]
CHOSEN = [2, 3, 5]


def turned(x, positions, theta, fault=None):
    """Rotate [heads, rows, d] by cosines and sines, half-split."""
    d = x.shape[-1]
    angle = np.array(positions)[:, None] * theta ** (-np.arange(0, d, 2) / d)[None, :]
    c, s = np.cos(angle), np.sin(angle)
    a, b = (x[..., ::2], x[..., 1::2]) if fault == "interleaved rotation" else (x[..., : d // 2], x[..., d // 2 :])
    if fault == "interleaved rotation":
        return np.stack([a * c - b * s, a * s + b * c], -1).reshape(x.shape)
    return np.concatenate([a * c - b * s, a * s + b * c], -1)


def packed_refresh(w, cfg, ids, K, V, u, fault=None):
    """Layer-major refresh: all selected rows advance through one layer together (equations 21 and 22)."""
    K, V, u = [k.copy() for k in K], [v.copy() for v in V], np.array(u)
    x = w["model.embed_tokens.weight"][np.array(ids)[u]]
    places = {"packed positions": np.arange(len(u)), "dirty positions": u + DELETED}.get(fault, u)

    def norm(y, weight):
        return y / np.sqrt((y * y).mean(-1, keepdims=True) + cfg["eps"]) * weight

    def heads(name, y, count):
        out = y @ w[at + f"self_attn.{name}_proj.weight"].T + w.get(at + f"self_attn.{name}_proj.bias", 0.0)
        out = out.reshape(len(u), count, cfg["head_dim"]).swapaxes(0, 1)
        key = at + f"self_attn.{name}_norm.weight"
        return norm(out, w[key]) if key in w and fault != "no q/k norm" else out

    for layer in range(cfg["layers"]):
        at = f"model.layers.{layer}."
        y = norm(x, w[at + "input_layernorm.weight"])
        q, k = (turned(heads(n, y, c), places, cfg["rope_theta"], fault) for n, c in (("q", 4), ("k", 2)))
        fresh_k, fresh_v = K[layer].copy(), V[layer].copy()
        fresh_k[:, u], fresh_v[:, u] = k, heads("v", y, 2)
        if fault == "stale selected rows":  # each row reads itself fresh and every other row stale
            o = np.empty_like(q)
            for r, at_u in enumerate(u):
                mixed_k, mixed_v = K[layer].copy(), V[layer].copy()
                mixed_k[:, at_u], mixed_v[:, at_u] = fresh_k[:, at_u], fresh_v[:, at_u]
                o[:, [r]] = other_attention(q[:, [r]], mixed_k, mixed_v, [at_u], 6**-0.5)
        else:
            o = other_attention(q, fresh_k, fresh_v, u, 6**-0.5, fault=fault)
        K[layer], V[layer] = fresh_k, fresh_v
        x = x + o.swapaxes(0, 1).reshape(len(u), -1) @ w[at + "self_attn.o_proj.weight"].T
        y = norm(x, w[at + "post_attention_layernorm.weight"])
        gate = y @ w[at + "mlp.gate_proj.weight"].T
        x = x + (gate / (1 + np.exp(-gate)) * (y @ w[at + "mlp.up_proj.weight"].T)) @ w[at + "mlp.down_proj.weight"].T
    return K, V


def shifted(w, cfg):
    _, K, V = llama.prefill(w, cfg, IDS)
    return llama.shift(K, V, PREFIX, DELETED, cfg)


def distance(a, b):
    return max(abs(x - y).max() for one, two in zip(a, b, strict=True) for x, y in zip(one, two, strict=True))


REFRESH_FAULTS = [
    "future",
    "bottom-right mask",
    "packed keys only",
    "interleaved groups",
    "stale selected rows",
    "packed positions",
    "dirty positions",
    "interleaved rotation",
    "no q/k norm",
]


@pytest.mark.parametrize("fault", REFRESH_FAULTS)
def test_refresh_fault(fault):
    w, cfg = random_model(qk_norm=True, bias=True)
    start = shifted(w, cfg)
    truth = llama.refresh(w, cfg, EDITED, *start, CHOSEN)
    assert distance(packed_refresh(w, cfg, EDITED, *start, CHOSEN), truth) < 1e-12
    assert distance(packed_refresh(w, cfg, EDITED, *start, CHOSEN, fault), truth) > 1e-3


def test_refresh_order_and_reach_faults():
    w, cfg = random_model()
    start = shifted(w, cfg)
    truth = llama.refresh(w, cfg, EDITED, *start, CHOSEN)
    backward = llama.refresh(w, cfg, EDITED, *llama.refresh(w, cfg, EDITED, *start, [5]), [2, 3])
    assert distance(backward, truth) > 1e-3  # later interval first: it reads the earlier one stale
    bridged = llama.refresh(w, cfg, EDITED, *start, [2, 3, 4, 5])
    assert distance(bridged, truth) > 1e-3
    clean = llama.prefill(w, cfg, EDITED)[1:]
    assert distance(clean, truth) > 1e-3  # sparse refresh is not the clean cache
    assert distance(llama.refresh(w, cfg, EDITED, *start, range(PREFIX, len(EDITED))), clean) < 1e-12
    assert distance(llama.refresh(w, cfg, EDITED, *start, []), start) == 0


@pytest.mark.parametrize("fault", ["wrong direction", "not rotated", "prefix rotated", "by the prefix", "interleaved"])
def test_shift_fault(fault):
    w, cfg = random_model()
    _, K, _ = llama.prefill(w, cfg, IDS)
    # Layer-0 keys depend on token and position only, so Shift must give those of the edited prompt.
    truth = llama.prefill(w, cfg, EDITED)[1][0]
    tail = np.arange(PREFIX + DELETED, len(IDS))
    by = {"wrong direction": DELETED, "not rotated": 0, "by the prefix": -PREFIX}.get(fault, -DELETED)
    layout = "interleaved rotation" if fault == "interleaved" else None
    faulty = np.concatenate([K[0][:, :PREFIX], turned(K[0][:, tail], [by] * len(tail), 50.0, layout)], axis=1)
    if fault == "prefix rotated":
        faulty[:, :PREFIX] = turned(K[0][:, :PREFIX], [by] * PREFIX, 50.0)
    assert abs(shifted(w, cfg)[0][0] - truth).max() < 1e-13
    assert abs(faulty - truth).max() > 1e-3


def test_greedy_faults():
    w, cfg = random_model()
    query = [5, 9]
    _, K, V = llama.prefill(w, cfg, EDITED)
    first, ids = llama.greedy(w, cfg, K, V, len(EDITED), query, 5)
    text = EDITED + query
    for step in range(5):
        hidden, _, _ = llama.prefill(w, cfg, text)  # no cache at all
        scores = hidden[-1] @ w["model.embed_tokens.weight"].T
        assert step or abs(scores - first).max() < 1e-12
        text = [*text, int(scores.argmax())]
    assert ids == text[-5:]
    faulty = {
        "the dirty cache": llama.greedy(w, cfg, *llama.prefill(w, cfg, IDS)[1:], len(IDS), query, 1)[0],
        "the shifted cache": llama.greedy(w, cfg, *shifted(w, cfg), len(EDITED), query, 1)[0],
        "the query's first token left out": llama.greedy(w, cfg, K, V, len(EDITED), query[1:], 1)[0],
        "logits one token early": llama.greedy(w, cfg, K, V, len(EDITED), query[:1], 1)[0],
    }
    for name, logits in faulty.items():
        assert abs(logits - first).max() > 1e-3, name
    with pytest.raises(ValueError):
        llama.greedy(w, cfg, K, V, len(IDS), query, 1)
