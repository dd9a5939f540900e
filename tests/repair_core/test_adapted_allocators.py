"""The adapted allocators on tiny models, against attention, caches and states of plain eager forwards."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from cachemend.repair_core import (
    Change,
    Deletion,
    Edits,
    LoadedModel,
    RepairContext,
    Tokens,
    allocate,
    load_model,
    refresh,
)
from cachemend.repair_core.allocators import names
from cachemend.repair_core.allocators.base import top
from cachemend.repair_core.allocators.speccache import complete, normalised, owners, smooth_spans
from cachemend.repair_core.caches import read_rows
from cachemend.repair_core.models import load_tokenizer
from cachemend.repair_core.rotary import cache_rotations
from cachemend.repair_core.rotation import Rotation
from cachemend.repair_core.signals import observing
from cachemend.repair_core.signals.hidden_norms import hidden_norms
from cachemend.repair_core.text import Span

from oracles import adapted, signals, speccache
from support.permuted_heads import permuted_heads
from support.tiny_checkpoint import save_tiny
from support.tiny_models import BY_NAME, MATRIX, Tiny, build

PREFIX, DELETED, SUFFIX, QUERY = 21, 6, 71, 5
SCORED = ("prophetkv", "infoflow", "cache-craft", "cacheblend", "a3", "cachetune", "clean-state-oracle")


def _context(model: nn.Module, seed: int = 0) -> RepairContext:
    ids = torch.randint(3, 200, (PREFIX + DELETED + SUFFIX + QUERY,), generator=torch.Generator().manual_seed(seed))
    p, e, s, q = (part.tolist() for part in ids.split((PREFIX, DELETED, SUFFIX, QUERY)))
    edit = Deletion(prefix_ids=p, deleted_ids=e, suffix_ids=s)
    return RepairContext(model, None, edit, "", case_id="case", query_ids=q)  # type: ignore[arg-type]


def _rows(context: RepairContext) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(rows.keys, rows.values) for rows in read_rows(context.shifted)]


def _expected(context: RepairContext, name: str) -> np.ndarray:
    edit, model = context.deletion, context.model
    p, s, q = edit.prefix_ids, edit.suffix_ids, context.query_ids  # type: ignore[attr-defined]
    if name == "prophetkv":
        return adapted.prophetkv_signal(model, _rows(context), q, PREFIX)
    if name == "infoflow":
        return adapted.infoflow_signal(model, _rows(context), q, PREFIX)
    if name == "cache-craft":
        return adapted.cache_craft_signal(model, p, edit.deleted_ids, s)  # type: ignore[attr-defined]
    if name == "cacheblend":
        return adapted.cacheblend_signal(model, _rows(context), p, s)
    if name == "a3":
        return adapted.a3_signal(model, p, s, q)
    if name == "clean-state-oracle":
        return adapted.clean_state_signal(model, _rows(context), p, s)
    keys, values = [], []
    for layer, (rows, turn) in enumerate(zip(_rows(context), cache_rotations(model), strict=True)):
        bare = [
            _bare(stored[0, :, PREFIX:].double().numpy(), rotation, _scale(model, layer))
            for stored, rotation in zip(rows, turn, strict=True)
        ]
        keys.append(bare[0])
        values.append(bare[1])
    return signals.cachetune_scores(keys, values)


def _scale(model: nn.Module, layer: int) -> float:
    """The attention scaling that the model's rotary embedding multiplies into this layer's keys."""
    rotary = next(module for name, module in model.named_modules() if name.endswith("rotary_emb"))
    kind = (getattr(model.config, "layer_types", None) or [""] * 9)[layer]  # type: ignore[union-attr]
    return float(getattr(rotary, f"{kind}_attention_scaling", getattr(rotary, "attention_scaling", 1.0)))


def _bare(rows: np.ndarray, rotation: Rotation, scale: float) -> np.ndarray:
    """Rows without their positions. The oracle knows the half layout at the front; others are reordered to it."""
    if rotation.inv_freq is None:
        return rows
    frequencies = rotation.inv_freq.numpy()
    width = 2 * len(frequencies)
    order = np.arange(rows.shape[-1])
    if rotation.tail:
        order = np.roll(order, width)
    if rotation.layout == "interleaved":
        order[:width] = np.concatenate((order[:width][0::2], order[:width][1::2]))
    where = list(range(PREFIX, PREFIX + SUFFIX))
    out = np.empty_like(rows)
    out[..., order] = signals.unrotate_half(rows[..., order], where, frequencies.tolist(), scale)
    return out


def _scores(context: RepairContext, name: str, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """What the allocator ranks."""
    seen: list[np.ndarray] = []

    def spy(scores: np.ndarray, count: int) -> np.ndarray:
        seen.append(scores)
        return top(scores, count)

    module = f"cachemend.repair_core.allocators.{name.replace('-', '_')}"
    monkeypatch.setattr(f"{module}.top", spy)
    allocate(name, context, Tokens(1))
    return seen[0]


@pytest.mark.parametrize("tiny", MATRIX, ids=lambda tiny: tiny.name)
def test_scores_and_sets_equal_the_oracle(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    context = _context(build(tiny))
    for name in SCORED:
        ours, theirs = _scores(context, name, monkeypatch), _expected(context, name)
        assert np.abs(ours - theirs).max() <= 1e-5 * max(1.0, np.abs(theirs).max()), name
        for budget in (1, 9, 40):
            kth = np.sort(theirs)[::-1]
            if kth[budget - 1] - kth[budget] > 1e-5 * kth[0]:
                chosen = allocate(name, context, Tokens(budget)) - PREFIX
                assert chosen.tolist() == signals.top(theirs, budget), (name, budget)


@pytest.mark.parametrize("length", [2, 3, 72, 73])
def test_every_suffix_length_keeps_its_own_bins(length: int) -> None:
    model = build(BY_NAME["llama"])
    ids = torch.randint(3, 200, (9 + length,), generator=torch.Generator().manual_seed(1)).tolist()
    edit = Deletion(prefix_ids=ids[:5], deleted_ids=ids[5:9], suffix_ids=ids[9:])
    context = RepairContext(model, None, edit, "", query_ids=[5])  # type: ignore[arg-type]
    keys, values = [], []
    for (k, v), turn in zip(_rows(context), cache_rotations(model), strict=True):
        frequencies = turn.keys.inv_freq.tolist()  # type: ignore[union-attr]
        keys.append(signals.unrotate_half(k[0, :, 5:].double().numpy(), list(range(5, 5 + length)), frequencies, 1.0))
        values.append(v[0, :, 5:].double().numpy())
    np.testing.assert_allclose(context.low_pass_strength, signals.cachetune_scores(keys, values), rtol=1e-4)


@pytest.mark.parametrize("name", ["llama", "gemma3", "gpt-oss"])
def test_tiles_of_keys_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, tiled = (_context(build(BY_NAME[name])) for _ in range(2))
    expected = whole.query_attention, whole.deleted_mass, whole.shallow_query_attention
    monkeypatch.setattr(observing, "TILE", 500)
    found = tiled.query_attention, tiled.deleted_mass, tiled.shallow_query_attention
    for a, b in zip((*expected[0], *expected[1:]), (*found[0], *found[1:]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", [tiny.name for tiny in MATRIX])
def test_hidden_norms_equal_the_oracle(name: str) -> None:
    model = build(BY_NAME[name])
    ids = list(range(5, 60))
    expected = adapted.hidden_norms(model, ids)
    np.testing.assert_allclose(hidden_norms(model, ids), expected, rtol=1e-4)


@pytest.mark.parametrize("name", [*SCORED, "legolink"])
def test_the_order_of_heads_changes_nothing(name: str) -> None:
    model = build(BY_NAME["llama"])
    plain, permuted = _context(model), _context(permuted_heads(model))
    assert not torch.equal(read_rows(plain.dirty)[0].keys, read_rows(permuted.dirty)[0].keys)
    for budget in (1, 9, 40):
        assert allocate(name, plain, Tokens(budget)).tolist() == allocate(name, permuted, Tokens(budget)).tolist()


def test_a_query_without_tokens_still_gets_a_choice() -> None:
    context = _context(build(BY_NAME["llama"]))
    context._query_ids = ()
    for name in ("prophetkv", "infoflow", "a3"):
        assert allocate(name, context, Tokens(3)).tolist() == [PREFIX, PREFIX + 1, PREFIX + 2]


def test_signals_leave_caches_and_model_alone() -> None:
    model = build(BY_NAME["gemma2"])
    context = _context(model)
    before = [(k.clone(), v.clone()) for cache in (context.dirty, context.shifted) for k, v in read_rows(cache)]
    logits, attention = model(torch.arange(5, 25)[None]).logits, model.config._attn_implementation
    for name in SCORED:
        allocate(name, context, Tokens(5))
    after = [(k, v) for cache in (context.dirty, context.shifted) for k, v in read_rows(cache)]
    assert all(torch.equal(a, c) and torch.equal(b, d) for (a, b), (c, d) in zip(before, after, strict=True))
    assert torch.equal(model(torch.arange(5, 25)[None]).logits, logits)
    assert model.config._attn_implementation == attention  # type: ignore[union-attr]


def test_legolink_equals_the_oracle_and_ignores_the_model() -> None:
    edit = Deletion(prefix_ids=range(7), deleted_ids=(1,), suffix_ids=range(1500))
    context = RepairContext(None, None, edit, "")  # type: ignore[arg-type]
    for budget in (1, 3, 75, 1400):
        assert (allocate("legolink", context, Tokens(budget)) - 7).tolist() == signals.legolink(1500, budget)


@settings(deadline=None)
@given(data=st.data(), length=st.integers(1, 40))
def test_speccache_equals_the_oracle(data: st.DataObject, length: int) -> None:
    steps = st.sampled_from([0.0, 0.1, 0.25, 0.4, 0.5, 1.0])
    norms = np.array(data.draw(st.lists(steps, min_size=length, max_size=length)))
    assert [list(range(*span)) for span in smooth_spans(norms)] == [
        list(s) for s in speccache.smooth_spans(norms.tolist())
    ]
    spans = _spans(data, length)
    targets = _spans(data, data.draw(st.integers(1, 40)))
    assert owners(spans, targets).tolist() == speccache.auxiliary_of(spans, targets)
    budget = data.draw(st.integers(1, len(targets)))
    scores = normalised(norms)
    marked, owner = complete(scores, budget), owners(spans, targets)
    assert set(np.flatnonzero(marked)) == speccache.marked_tokens(scores, budget)
    chosen = sorted(top(scores[owner] + 2.0 * marked[owner], budget).tolist())
    assert chosen == speccache.speccache_select(norms.tolist(), spans, targets, budget)


def _spans(data: st.DataObject, count: int) -> tuple[Span, ...]:
    widths = data.draw(st.lists(st.integers(0, 4), min_size=count, max_size=count))
    stops = np.cumsum(widths)
    return tuple(Span(int(stop - width), int(stop)) for stop, width in zip(stops, widths, strict=True))


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load_model(str(save_tiny(tmp_path_factory.mktemp("auxiliary"))))


def test_an_auxiliary_model_with_another_tokenizer_scores_the_same_text(loaded: LoadedModel) -> None:
    tokenizer = load_tokenizer("smollm2-135m")
    parts = ["The baker opened the shop.", " A red bicycle leaned there.", " Two children counted boats on the river."]
    p, e, s = (tokenizer(part, add_special_tokens=False)["input_ids"] for part in parts)
    edit = Deletion(prefix_ids=p, deleted_ids=e, suffix_ids=s)
    context = RepairContext(build(BY_NAME["llama"]), tokenizer, edit, "", auxiliary=loaded)
    text = parts[0] + parts[2]
    encoded = loaded.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    inside = [i for i, (_, stop) in enumerate(encoded["offset_mapping"]) if stop > len(parts[0])]
    spans = [encoded["offset_mapping"][i] for i in inside]
    norms = adapted.hidden_norms(loaded.model, encoded["input_ids"])[inside]
    target = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"][len(p) :]
    for budget in range(1, len(s)):
        expected = speccache.speccache_select(norms.tolist(), spans, target, budget)
        assert (allocate("speccache", context, Tokens(budget)) - len(p)).tolist() == expected


def test_all_fourteen_are_registered_once() -> None:
    assert len(names()) == len(set(names())) == 14


def _edits() -> Edits:
    ids = torch.randint(3, 200, (98,), generator=torch.Generator().manual_seed(3)).tolist()
    return Edits(
        original_ids=ids,
        changes=(
            Change(start=20, stop=26),
            Change(start=40, stop=42, replacement_ids=(9, 8, 7)),
            Change(start=70, stop=71),
        ),
    )


def test_inserted_tokens_are_computed_before_a_query_looks_at_them() -> None:
    model, edit, query = build(BY_NAME["llama"]), _edits(), [5, 6, 7, 8]
    context = RepairContext(model, None, edit, "", query_ids=query)  # type: ignore[arg-type]
    ready = refresh(model, context.shifted, edit.edited_ids, edit.inserted_positions)
    rows = [(layer.keys, layer.values) for layer in read_rows(ready)]
    seen = adapted.query_attention(model, rows, query)
    expected = seen.mean(axis=(0, 1, 2))[edit.suffix_positions]
    np.testing.assert_allclose(context.query_attention.mean[edit.suffix_positions], expected, atol=1e-6)
    assert (
        allocate("prophetkv", context, Tokens(5)).tolist() == edit.suffix_positions[signals.top(expected, 5)].tolist()
    )


def test_several_deletions_count_all_deleted_keys() -> None:
    model, edit = build(BY_NAME["llama"]), _edits()
    context = RepairContext(model, None, edit, "", query_ids=[5])  # type: ignore[arg-type]
    attention = adapted.visible_attention(model, [], edit.original_ids, 0)
    mass = attention[:, :, :, edit.deleted_positions].sum(axis=3).mean(axis=(0, 1))
    np.testing.assert_allclose(context.deleted_mass, mass[edit.suffix_original_positions], atol=1e-6)


@pytest.mark.parametrize("name", [n for n in names() if n not in ("speccache", "bm25-units", "random-units", "sur")])
def test_every_signal_takes_several_edits(name: str) -> None:
    edit = _edits()
    context = RepairContext(build(BY_NAME["llama"]), None, edit, "", query_ids=[5, 6])  # type: ignore[arg-type]
    chosen = allocate(name, context, Tokens(7))
    assert len(chosen) == 7
    assert set(chosen) <= set(edit.suffix_positions)
