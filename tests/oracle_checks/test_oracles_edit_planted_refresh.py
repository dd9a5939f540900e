"""Plausible faults in the refresh after an in-place edit, on a random Llama in FP32.

Each case runs a second implementation twice: without a fault it agrees with the oracle, with it it does not. Refresh
without a fault is one traversal, layer by layer, or the NumPy decoder.
"""

import pytest
import torch

from oracles import adapted, llama
from oracles import edit_policies as policies
from support.tiny_models import BY_NAME, build

OLD = list(range(20, 44))
N, START, STOP = len(OLD), 6, 8  # the edit is [6, 8)
NEW = [*OLD[:START], 150, 161, *OLD[STOP:]]
SPAN = range(START, STOP)
SCATTERED = [*SPAN, 8, 12, 13, 17]


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


def rows_of(kv, i):
    return [(k[:, :, i], v[:, :, i]) for k, v in kv]


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


def test_refresh_agrees_with_the_numpy_decoder(model, stale):
    weights, cfg = decoder(model)
    for positions in (list(SPAN), SCATTERED, [N - 1, 0, 5], range(N), []):
        numpy_rows = as_rows(*llama.refresh(weights, cfg, NEW, *as_numpy(stale), positions))
        assert distance(policies.refresh_rows(model, stale, NEW, positions), numpy_rows) < 1e-5


def test_refresh_properties(model, stale, clean, base):
    assert distance(policies.refresh_rows(model, stale, NEW, range(N)), clean) < 1e-5
    assert distance(policies.refresh_rows(model, stale, NEW, range(START, N)), clean) < 1e-5
    assert distance(policies.refresh_rows(model, base, NEW, SPAN), base) < 1e-5  # the same set twice
    window = policies.edit_local(STOP, N, 5)
    recomputed = policies.refresh_rows(model, stale, NEW, [*SPAN, *window])
    assert distance(recomputed, policies.transplant(base, clean, window)) < 1e-5
    for i in range(N):
        if i not in SPAN and i not in window:
            assert distance(rows_of(recomputed, i), rows_of(stale, i)) == 0
    assert distance(rows_of(stale, slice(0, START)), rows_of(clean, slice(0, START))) < 1e-6  # upstream
    # Scattered, the two operators part.
    scattered = policies.refresh_rows(model, stale, NEW, SCATTERED)
    assert distance(scattered, policies.transplant(base, clean, SCATTERED)) > 1e-3


def layer_major(model, kv, ids, positions, fault):
    """All positions in one traversal: each layer's fresh rows are written before any of them attends."""
    fault_at = {"tokens before the edit": OLD}.get(fault, ids)
    u = sorted(positions)
    if fault == "bridged":
        u = list(range(u[0], u[-1] + 1))
    plain = adapted.eager_copy(model).model
    where = torch.arange(len(u)) if fault == "compacted positions" else torch.tensor(u)
    x = plain.embed_tokens(torch.tensor([[fault_at[i] for i in u]]))
    cos, sin = plain.rotary_emb(x, where[None])

    def turn(y):
        half = y.shape[-1] // 2
        return y * cos[:, None] + torch.cat([-y[..., half:], y[..., :half]], dim=-1) * sin[:, None]

    out = policies.copied(kv)
    key_at, row_at = torch.arange(N)[None], torch.tensor(u)[:, None]
    hidden = key_at > row_at
    if fault == "future":
        hidden = torch.zeros_like(hidden)
    if fault == "strictly before":
        hidden = key_at >= row_at
    if fault == "fresh rows only":
        hidden = hidden | ~torch.isin(key_at, torch.tensor(u))
    if fault == "bottom-right mask":
        hidden = key_at > N - len(u) + torch.arange(len(u))[:, None]
    for layer, (k_rows, v_rows) in zip(plain.layers, out, strict=True):
        y, at = layer.input_layernorm(x), layer.self_attn
        q, k, v = (f(y).view(1, len(u), -1, at.head_dim).transpose(1, 2) for f in (at.q_proj, at.k_proj, at.v_proj))
        read_k, read_v = k_rows.clone(), v_rows.clone()
        k_rows[:, :, u], v_rows[:, :, u] = turn(k), v
        if fault != "selected rows read stale":
            read_k, read_v = k_rows, v_rows
        group = q.shape[1] // k.shape[1]
        z = turn(q) @ read_k.repeat_interleave(group, 1).transpose(2, 3) * at.scaling
        a = z.masked_fill(hidden, -torch.inf).softmax(-1) @ read_v.repeat_interleave(group, 1)
        x = x + at.o_proj(a.transpose(1, 2).reshape(1, len(u), -1))
        x = x + layer.mlp(layer.post_attention_layernorm(x))
    if fault == "values kept":
        out = [(k, v) for (k, _), (_, v) in zip(out, policies.copied(kv), strict=True)]
    if fault == "first layer kept":
        out = [policies.copied(kv)[0], *out[1:]]
    return out


def run_by_run(model, kv, ids, positions, fault):
    runs = [list(range(a, b)) for a, b in policies.intervals(positions)]
    if fault == "one at a time":
        runs = [[i] for i in sorted(positions)]
    if fault == "last run first":
        runs = runs[::-1]
    if fault == "one at a time, last first":
        runs = [[i] for i in sorted(positions, reverse=True)]
    out = policies.copied(kv)
    for run in runs:
        part = policies.refresh_rows(model, kv if fault == "runs apart" else out, ids, run)
        for (k, v), (fresh_k, fresh_v) in zip(out, part, strict=True):
            k[:, :, run], v[:, :, run] = fresh_k[:, :, run], fresh_v[:, :, run]
    return out


TRAVERSAL_FAULTS = [
    "tokens before the edit",
    "bridged",
    "compacted positions",
    "future",
    "strictly before",
    "fresh rows only",
    "bottom-right mask",
    "selected rows read stale",
    "values kept",
    "first layer kept",
]


@torch.no_grad()
@pytest.mark.parametrize("fault", TRAVERSAL_FAULTS)
def test_refresh_fault(model, stale, fault):
    truth = policies.refresh_rows(model, stale, NEW, SCATTERED)
    assert distance(layer_major(model, stale, NEW, SCATTERED, None), truth) < 1e-5
    assert distance(layer_major(model, stale, NEW, SCATTERED, fault), truth) > 1e-3


@pytest.mark.parametrize("fault", ["last run first", "one at a time, last first", "runs apart"])
def test_refresh_order_fault(model, stale, fault):
    truth = policies.refresh_rows(model, stale, NEW, SCATTERED)
    assert distance(run_by_run(model, stale, NEW, SCATTERED, None), truth) < 1e-5
    # In increasing order single positions do as well: causal attention reads nothing that comes later.
    assert distance(run_by_run(model, stale, NEW, SCATTERED, "one at a time"), truth) < 1e-5
    assert distance(run_by_run(model, stale, NEW, SCATTERED, fault), truth) > 1e-3
