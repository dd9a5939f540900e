"""The decoder oracle against models small enough to work out by hand."""

import math

import numpy as np

from oracles import llama


def uniform_model(layers: int, tokens: list) -> tuple[dict, dict]:
    """Zero queries make attention the plain mean; values and output are the identity; the MLP is 0."""
    width = len(tokens[0])
    eye, zero = np.eye(width), np.zeros((width, width))
    weights = {
        "model.embed_tokens.weight": np.array(tokens, dtype=float),
        "model.norm.weight": np.ones(width),
    }
    for layer in range(layers):
        at = f"model.layers.{layer}."
        weights |= {at + f"{n}.weight": np.ones(width) for n in ("input_layernorm", "post_attention_layernorm")}
        weights |= {at + f"self_attn.{n}_proj.weight": eye for n in ("k", "v", "o")}
        weights |= {at + "self_attn.q_proj.weight": zero}
        weights |= {at + f"mlp.{n}_proj.weight": zero for n in ("gate", "up", "down")}
    cfg = {
        "hidden": width,
        "layers": layers,
        "heads": 1,
        "kv_heads": 1,
        "head_dim": width,
        "rope_theta": 10_000.0,
        "eps": 0.0,
    }
    return weights, cfg


TOKENS = [[1, 1], [1, -1], [-1, 1], [-1, -1]]  # root mean square 1: the norm leaves them as they are


def n(x):
    return x / math.sqrt((x[0] ** 2 + x[1] ** 2) / 2)


def test_prefill_by_hand():
    weights, cfg = uniform_model(1, TOKENS)
    hidden, K, V = llama.prefill(weights, cfg, [0, 1])
    # Row 0: (1, 1) + (1, 1), normed (1, 1). Row 1: (1, -1) + mean of both = (1, 0), so (2, -1) / sqrt 2.5.
    np.testing.assert_allclose(hidden, [[1, 1], np.array([2, -1]) / math.sqrt(2.5)], atol=1e-15)
    np.testing.assert_allclose(V[0], [[[1, 1], [1, -1]]], atol=1e-15)
    # Key 1 is (1 - i) e^i = (cos 1 + sin 1) + i (sin 1 - cos 1); one pair, frequency 1.
    c, s = math.cos(1), math.sin(1)
    np.testing.assert_allclose(K[0], [[[1, 1], [c + s, s - c]]], atol=1e-15)


def test_mlp_by_hand():
    weights, cfg = uniform_model(1, TOKENS)
    at = "model.layers.0.mlp."
    weights |= {at + "gate_proj.weight": np.array([[1.0, 0]]), at + "up_proj.weight": np.array([[0, 3.0]])}
    weights |= {at + "down_proj.weight": np.array([[1.0], [0]])}
    # After attention (2, 2), normed (1, 1): SiLU(1) * 3 = 3 / (1 + e^-1) is added to the first entry.
    x = np.array([2 + 3 / (1 + math.exp(-1)), 2])
    hidden, _, _ = llama.prefill(weights, cfg, [0])
    np.testing.assert_allclose(hidden[0], n(x), atol=1e-15)


def test_rotation_pairs_and_frequencies():
    # d = 4, theta = 100: pairs (0, 2) at frequency 1 and (1, 3) at 100^(-1/2) = 0.1.
    x = llama.rotate(np.array([1.0, 1.0, 0.0, 0.0]), 3, {"head_dim": 4, "rope_theta": 100})
    np.testing.assert_allclose(x, [math.cos(3), math.cos(0.3), math.sin(3), math.sin(0.3)], atol=1e-15)


def test_shift_by_hand():
    # Unit keys stored at 0..4; rows 1 and 2 are deleted, so rows 3 and 4 end at angles 1 and 2.
    K = [np.array([[[math.cos(p), math.sin(p)] for p in range(5)]])]
    V = [np.arange(10.0).reshape(1, 5, 2)]
    keys, values = llama.shift(K, V, 1, 2, {"head_dim": 2, "rope_theta": 1e4})
    np.testing.assert_allclose(keys[0][0], [[math.cos(p), math.sin(p)] for p in range(3)], atol=1e-15)
    assert values[0][0].tolist() == [[0, 1], [6, 7], [8, 9]]


def test_refresh_reads_stale_history_and_fresh_intervals():
    # Three layers, original tokens 0 | 3 | 2 3 2, the middle one deleted. A last-layer value is n(h2) where
    # h1_r = x_r + mean n(x_j), h2_r = h1_r + mean of the layer-1 values its history holds.
    weights, cfg = uniform_model(3, TOKENS)
    original, edited = [0, 3, 2, 3, 2], [0, 2, 3, 2]
    _, K, V = llama.prefill(weights, cfg, original)
    K, V = llama.shift(K, V, 1, 1, cfg)
    stale = [V[1][0][j] for j in range(4)]
    x = [np.array(TOKENS[t], dtype=float) for t in edited]
    fresh = [x[r] + sum(x[: r + 1]) / (r + 1) for r in range(4)]  # h1 of the edited history

    _, one = llama.refresh(weights, cfg, edited, K, V, [3])
    expected = n(fresh[3] + (stale[0] + stale[1] + stale[2] + n(fresh[3])) / 4)
    np.testing.assert_allclose(one[2][0][3], expected, atol=1e-14)

    _, two = llama.refresh(weights, cfg, edited, K, V, [1, 3])
    expected = n(fresh[3] + (stale[0] + n(fresh[1]) + stale[2] + n(fresh[3])) / 4)
    np.testing.assert_allclose(two[2][0][3], expected, atol=1e-14)
    assert abs(two[2][0][3] - one[2][0][3]).max() > 0.01
    assert all((two[layer][:, [0, 2]] == V[layer][:, [0, 2]]).all() for layer in range(3))

    full_k, full_v = llama.refresh(weights, cfg, edited, K, V, [1, 2, 3])
    _, clean_k, clean_v = llama.prefill(weights, cfg, edited)
    np.testing.assert_allclose(full_k, clean_k, atol=1e-14)
    np.testing.assert_allclose(full_v, clean_v, atol=1e-14)


def test_greedy_by_hand():
    # Blind attention and one-hot embeddings: the head answers every token with the next one.
    weights, cfg = uniform_model(1, np.eye(4).tolist())
    weights["model.layers.0.self_attn.o_proj.weight"] = np.zeros((4, 4))
    weights["lm_head.weight"] = np.roll(np.eye(4), 1, axis=0)
    _, K, V = llama.prefill(weights, cfg, [0, 1])
    first, ids = llama.greedy(weights, cfg, K, V, 2, [3, 1], 4)
    assert first.tolist() == [0, 0, 2, 0]  # one-hot of width 4 has norm factor 2
    assert ids == [2, 3, 0, 1]
    assert K[0].shape == (1, 2, 4)


def test_greedy_depends_on_the_cache():
    weights, cfg = uniform_model(1, np.eye(4).tolist())
    _, K, V = llama.prefill(weights, cfg, [3, 3, 3])
    # Query 0: e0 + (3 n(e3) + n(e0)) / 4 = (1 + 2/4, 0, 0, 6/4): 0 and 3 tie, 0 wins.
    first, ids = llama.greedy(weights, cfg, K, V, 3, [0], 1)
    assert first[0] == first[3] > first[1] == 0
    assert ids == [0]
