"""Signals, refresh and margins of an in-place edit on a two-dimensional Llama that can be worked out by hand."""

import math

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from oracles import adapted
from oracles import edit_policies as policies

A, B, C = 0, 1, 2  # embeddings (1, 1), (1, -1) and (-3, 1)
HEAD = [[0.0, 0.0], [math.log(2), 0.0], [0.0, math.log(2)]]


def plain_llama(layers, mixing=True):
    """Zero queries make attention the plain mean; values are the normed input, keys twice that; the MLP is 0.

    mixing: attention's output is added as it is; otherwise nothing is, and a row knows its own token alone.
    """
    config = LlamaConfig(
        vocab_size=3,
        hidden_size=2,
        intermediate_size=2,
        num_hidden_layers=layers,
        num_attention_heads=1,
        num_key_value_heads=1,
        head_dim=2,
        max_position_embeddings=64,
        rms_norm_eps=0.0,
        pad_token_id=None,
        bos_token_id=None,
        eos_token_id=None,
    )
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 1:
                weight.fill_(1)
            elif "k_proj" in name or "v_proj" in name or ("o_proj" in name and mixing):
                weight.copy_((2 if "k_proj" in name else 1) * torch.eye(2))
            else:
                weight.fill_(0)
        model.model.embed_tokens.weight.copy_(torch.tensor([[1.0, 1.0], [1.0, -1.0], [-3.0, 1.0]]))
        model.lm_head.weight.copy_(torch.tensor(HEAD))
    return model


def values(kv, layer):
    return kv[layer][1][0, 0].numpy()


def test_attention_by_hand():
    model = plain_llama(2)
    stale = adapted.fresh_rows(model, [A, B, A])
    # Query rows see 4 and 5 tokens: the mean of 1/4 and 1/5 for each of the three context tokens.
    found = policies.attention_scores(model, stale, [A, B])
    np.testing.assert_allclose(found, [9 / 40] * 3, atol=1e-7)


def test_cacheblend_by_hand():
    # Without mixing: V goes from (1, 1) to (1, -1), squared 4, K is twice that, squared 16; later rows stay.
    found = policies.cacheblend_scores(plain_llama(2, mixing=False), [A, A, B], [A, B, B])
    np.testing.assert_allclose(found, [0, 20, 0], atol=1e-5)
    # Mixing, [A, A] to [B, A]. Row 0: twice its token, normed the token: 20 again. Row 1, old: (1, 1) + (1, 1),
    # normed (1, 1); new: (1, 1) + mean of (1, -1) and (1, 1) = (2, 1), normed (2, 1) / sqrt 2.5. The square of
    # the difference is 2 + 2 - 2 * 3 / sqrt 2.5, five times that with K (a rotation keeps lengths).
    found = policies.cacheblend_scores(plain_llama(2), [A, A], [B, A])
    np.testing.assert_allclose(found, [20, 5 * (4 - 6 / math.sqrt(2.5))], atol=1e-5)
    with pytest.raises(ValueError, match="length"):
        policies.cacheblend_scores(plain_llama(2), [A, A], [B])


def test_refresh_by_hand():
    model, new = plain_llama(2), [B, A, A]
    stale = adapted.fresh_rows(model, [A, A, A])
    r = 1 / math.sqrt(2.5)
    # Layer 1 of the clean cache. Row 0: (1, -1). Row 1: (2, 1) r. Row 2: (1, 1) + (3, 1) / 3 = (2, 4/3).
    third = np.array([2, 4 / 3]) / math.sqrt((4 + 16 / 9) / 2)
    clean = adapted.fresh_rows(model, new)
    np.testing.assert_allclose(values(clean, 1), [[1, -1], [2 * r, r], third], atol=1e-6)
    # Row 1 on its own reads the stale row 0: nothing changes. With row 0 it becomes the clean one.
    np.testing.assert_allclose(values(policies.refresh_rows(model, stale, new, [1]), 1), np.ones((3, 2)), atol=1e-6)
    span_and_next = values(policies.refresh_rows(model, stale, new, [0, 1]), 1)
    np.testing.assert_allclose(span_and_next, [[1, -1], [2 * r, r], [1, 1]], atol=1e-6)
    # Rows 0 and 2: row 2 reads row 0 fresh and, in layer 0, a row 1 that is right as it stands.
    scattered = values(policies.refresh_rows(model, stale, new, [2, 0]), 1)
    np.testing.assert_allclose(scattered, [[1, -1], [1, 1], third], atol=1e-6)
    # Transplant of row 1 alone imports what recomputation could not give it.
    moved = values(policies.transplant(stale, clean, [1]), 1)
    np.testing.assert_allclose(moved, [[1, 1], [2 * r, r], [1, 1]], atol=1e-6)
    np.testing.assert_allclose(values(stale, 1), np.ones((3, 2)), atol=1e-6)  # the input stays


def test_margin_by_hand():
    model = plain_llama(1, mixing=False)
    kv = adapted.fresh_rows(model, [C, C])
    # Scores after A = (1, 1): 0, ln 2, ln 2: 1/5, 2/5, 2/5. After B = (1, -1): 0, ln 2, -ln 2: 2/7, 4/7, 1/7.
    # New [B, C] after A: 2/5 * 1/7, per token. Old [A]: 1/5.
    expected = 0.5 * math.log(2 / 35) - math.log(1 / 5)
    assert policies.margin(model, kv, [C, A], [A], [B, C]) == pytest.approx(expected, abs=1e-6)
    assert policies.margin(model, kv, [C, A], [B, C], [A]) == pytest.approx(-expected, abs=1e-6)
    for query, answer in (([], [A]), ([A], [])):
        with pytest.raises(ValueError, match="must each have a token"):
            policies.margin(model, kv, query, answer, [A])


def test_causal_effects_by_hand():
    model = plain_llama(1)
    base = adapted.fresh_rows(model, [A, A, A])
    clean = [(k.clone(), v.clone()) for k, v in base]
    clean[0][1][0, 0, 1] = torch.tensor([-7.0, 1.0])
    clean[0][1][0, 0, 2] = torch.tensor([1.0, -7.0])
    # Query A after three rows of value (1, 1): (1, 1) + (1, 1), normed (1, 1); answers B and C stand ln 2 against ln 2.
    # With clean row 1 the mean is (-1, 1): (0, 2), normed (0, sqrt 2): B less C is -sqrt 2 ln 2. Row 2 mirrors it.
    step = math.sqrt(2) * math.log(2)
    found = policies.causal_effects(model, base, clean, [2, 0, 1], [A], [C], [B])
    np.testing.assert_allclose(found, [step, 0, -step], atol=1e-6)


def test_two_stage_by_hand():
    model, new = plain_llama(2), [B, A, A, A, A, A]
    stale = adapted.fresh_rows(model, [A] * 6)
    # Attention is uniform: pool 1 ... 4, the earlier first, then the next of the rest.
    found = policies.two_stage(model, stale, new, [A], 0, 1, 1, 2)
    assert (found.first, found.second) == ([1], [2, 3])
    clean = adapted.fresh_rows(model, new)
    np.testing.assert_allclose(values(found.kv, 1)[:4], values(clean, 1)[:4], atol=1e-6)
    np.testing.assert_allclose(values(found.kv, 1)[4:], np.ones((2, 2)), atol=1e-6)
    with pytest.raises(ValueError):
        policies.two_stage(model, stale, new, [A], 0, 1, 3, 2)  # four candidates
