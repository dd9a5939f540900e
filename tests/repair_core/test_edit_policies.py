"""What each policy selects, against the oracles, the deletion engine and texts worked out by hand."""

import hashlib
import subprocess
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from cachemend.repair_core import (
    Change,
    Choice,
    Deletion,
    Edits,
    InputError,
    LoadedModel,
    RepairContext,
    Replacement,
    StaleContext,
    Tokens,
    allocate,
    choose,
    load_model,
    prefill,
    refresh,
    repair,
    replacement_from_texts,
)
from cachemend.repair_core.allocators.cacheblend import shallow_deviation
from cachemend.repair_core.caches import plain_cache, read_rows
from cachemend.repair_core.intervals import Interval
from cachemend.repair_core.invariants import caches_equal
from cachemend.repair_core.policies import (
    DIAGNOSTICS,
    POLICIES,
    Policy,
    Truth,
    diagnose,
    diagnostic_names,
    get_policy,
    policy_names,
    register,
)
from cachemend.repair_core.policies.blocks import block_stop
from cachemend.repair_core.policies.naming import edited_words, naming_unit
from cachemend.repair_core.policies.structural import is_delimiter
from cachemend.repair_core.signals.query_attention import QueryAttention
from cachemend.repair_core.text import Span, TokenText
from cachemend.repair_core.units import Segmentation, Unit

from oracles import allocators as allocator_oracle
from oracles import edit_policies as oracle
from support.permuted_heads import permuted_heads
from support.tiny_checkpoint import save_tiny
from support.tiny_models import BY_NAME, FIXED_POSITIONS, MATRIX, VOCABULARY, Tiny, build

IDS = np.random.default_rng(9).integers(3, VOCABULARY, 60).tolist()
IN_PLACE = Replacement(original_ids=IDS, start=14, stop=17, replacement_ids=[7, 8, 9])
SAME = Edits(original_ids=tuple(IDS), changes=[Change(start=14, stop=17, replacement_ids=[7, 8, 9])])
LONGER = Replacement(original_ids=IDS, start=14, stop=17, replacement_ids=[7, 8, 9, 10, 11])
SHORTER = Replacement(original_ids=IDS, start=14, stop=17, replacement_ids=[7])
QUERY = (5, 6, 7, 8)
TEXTS = (
    "word",
    " word",
    ".",
    " |",
    "\n",
    "\n\n",
    ".\n",
    " ",
    "-",
    "12.",
    "3)",
    "  \t",
    "",
    "?!",
    "a.",
    "•",
    "x\n",
    "]}",
)


def _context(edit: object, model: nn.Module, query: tuple[int, ...] = QUERY) -> StaleContext:
    return StaleContext(model, None, edit, "", query_ids=query, case_id="case")  # type: ignore[arg-type]


@cache
def _model(name: str) -> nn.Module:
    return build(BY_NAME[name])


def _truth(start: int, stop: int) -> Truth:
    rows = plain_cache([])
    return Truth(clean=rows, query_ids=(1,), old_ids=(2,), new_ids=(3,), carrier=Interval(start, stop))


class Given:
    """A context whose texts, units and scores are given instead of computed."""

    def __init__(
        self, texts: list[str], a: int, b: int, old: int = 1, scores: np.ndarray | None = None, unit: int = 9
    ) -> None:
        n, stops = len(texts), np.cumsum([len(text) for text in texts], dtype=int)
        new = range(100, 100 + b - a)
        original = [*range(a), *range(50, 50 + old), *range(200, 200 + n - b)]
        self.edit = Replacement(original_ids=original, start=a, stop=a + old, replacement_ids=new)
        self.context = StaleContext(None, None, self.edit, "", case_id="case-1")  # type: ignore[arg-type]
        spans = tuple(Span(int(stop) - len(text), int(stop)) for text, stop in zip(texts, stops, strict=True))
        units = tuple(Unit(*pair) for pair in pairwise(sorted({*range(0, n - b, unit), n - b})))
        whole = np.zeros(n) if scores is None else scores
        pieces = tuple("".join(texts[b + u.start : b + u.stop]) for u in units)
        vars(self.context).update(
            edited_text=TokenText("".join(texts), spans),
            segmentation=Segmentation(units, pieces),
            query_attention=QueryAttention(whole, whole),
            relevance=whole[b:],
        )


@st.composite
def given_contexts(draw: st.DrawFn) -> tuple[Given, list[str], int, int]:
    n = draw(st.integers(3, 40))
    a = draw(st.integers(0, n - 2))
    b = draw(st.integers(a + 1, min(n - 1, a + 6)))
    texts = draw(st.lists(st.sampled_from(TEXTS), min_size=n, max_size=n))
    # Few distinct values, so that ties are common; no difference is a multiple of 1/16, the step of the envelope's
    # decay, where equal sums would be told apart by their rounding.
    raw = draw(st.lists(st.sampled_from([0.0, 0.11, 0.53, 1.27]), min_size=n, max_size=n))
    return Given(texts, a, b, draw(st.integers(1, 6)), np.array(raw), draw(st.integers(1, 12))), texts, a, b


def test_the_policies_are_those_of_the_tables() -> None:
    assert (
        policy_names()
        == POLICIES
        == (
            "edit-local",
            "edit-local-boundary",
            "structural",
            "attention",
            "cacheblend",
            "random",
            "sur",
            "edit-local-sur",
            "edit-to-carrier",
            "two-stage",
        )
    )
    diagnostics = ("causal-oracle", "causal-oracle-screened", "carrier-window", "span-to-carrier")
    assert diagnostic_names() == DIAGNOSTICS == diagnostics
    own = {name for name in (*POLICIES, *DIAGNOSTICS) if get_policy(name).own_length}
    assert own == {"edit-local-boundary", "edit-to-carrier", "span-to-carrier"}
    assert all(get_policy(name).name == name for name in (*POLICIES, *DIAGNOSTICS))
    assert {get_policy(name).deployable for name in POLICIES} == {True}
    assert {get_policy(name).deployable for name in DIAGNOSTICS} == {False}
    with pytest.raises(ValueError, match="registered twice"):

        @register
        class Again(Policy):
            name = "edit-local"

            def select(self, context: StaleContext, k: int) -> Choice:
                raise AssertionError


@given(given_contexts(), st.data())
def test_rules_of_text_and_place_equal_the_oracle(case: tuple, data: st.DataObject) -> None:
    made, texts, a, b = case
    context, n = made.context, len(texts)
    pool = oracle.pool(a, b, n)
    assert context.pool.tolist() == pool
    k = data.draw(st.integers(0, len(pool)))
    assert choose("edit-local", context, k).positions.tolist() == oracle.edit_local(b, n, k)
    assert choose("edit-local-boundary", context).positions.tolist() == oracle.edit_local_boundary(texts, b, n)
    fixed, topup = oracle.structural(texts, b, n, k)
    chosen = choose("structural", context, k)
    assert chosen.n_topup == topup
    assert set(fixed) <= set(chosen.positions)
    assert len(set(chosen.positions) - set(fixed)) == topup
    scores = context.query_attention.mean
    assert choose("attention", context, k).positions.tolist() == oracle.top_k(scores, pool, k)
    if pool:
        carrier = data.draw(st.integers(b, n - 2))
        window = diagnose("carrier-window", context, _truth(carrier, n), k).positions
        assert window.tolist() == oracle.carrier_window(carrier, b, n, k)
        path = diagnose("span-to-carrier", context, _truth(carrier, carrier + 1)).positions
        assert path.tolist() == list(range(b, carrier + 1))


@given(given_contexts(), st.data())
def test_semantic_units_of_the_pool_equal_the_oracle(case: tuple, data: st.DataObject) -> None:
    made, _, _, b = case
    context, size = made.context, made.context.pool.size
    k = data.draw(st.integers(0, size))
    r = context.relevance.tolist()
    units = [[i for i in range(u.start, u.stop) if i < size] for u in context.segmentation.units]
    expected = allocator_oracle.sur(r[:size], [unit for unit in units if unit], k)
    assert (choose("sur", context, k).positions - b).tolist() == expected
    near = -(-k // 2)
    left = [[i - near for i in unit if i >= near] for unit in units]
    rest = allocator_oracle.sur(r[near:size], [unit for unit in left if unit], k - near)
    assert (choose("edit-local-sur", context, k).positions - b).tolist() == [*range(near), *(i + near for i in rest)]


@settings(max_examples=60)
@given(given_contexts(), st.data())
def test_exactly_k_sorted_distinct_positions_of_the_pool(case: tuple, data: st.DataObject) -> None:
    context = case[0].context
    k = data.draw(st.integers(0, context.pool.size))
    for name in POLICIES:
        if name in ("cacheblend", "two-stage"):
            continue
        chosen = choose(name, context, k).positions
        assert chosen.dtype == np.int64
        assert get_policy(name).own_length or len(chosen) == k
        assert (np.diff(chosen) > 0).all()
        assert set(chosen) <= set(context.pool)
        assert choose(name, context, k).positions.tolist() == chosen.tolist()


def test_random_positions_follow_from_the_case_id_alone() -> None:
    context = Given(["word"] * 30, 4, 6).context

    def order(purpose: str) -> list[int]:
        keys = [hashlib.sha256(f"case-1|{purpose}|{i}".encode()).digest() for i in range(23)]
        return [6 + i for i in sorted(range(23), key=keys.__getitem__)]

    for k in (1, 7, 23):
        assert choose("random", context, k).positions.tolist() == sorted(order("position")[:k])
        assert choose("structural", context, k) == (pytest.approx(sorted(order("top-up")[:k])), k)
    context.case_id = "case-2"
    assert choose("random", context, 7).positions.tolist() != sorted(order("position")[:7])


@pytest.mark.parametrize("edit", [IN_PLACE, LONGER, SHORTER], ids=["in-place", "longer", "shorter"])
@pytest.mark.parametrize("name", ["edit-local", "attention", "cacheblend", "random", "two-stage"])
def test_every_replacement_gets_exactly_k(name: str, edit: Replacement) -> None:
    context = _context(edit, _model("llama"))
    for k in (0, 1, 2, 9, edit.pool.size):
        chosen = choose(name, context, k)
        assert len(chosen.positions) == k
        assert set(chosen.positions) <= set(edit.pool)
        assert chosen.n_topup == 0


@pytest.mark.parametrize("tiny", [*MATRIX, *FIXED_POSITIONS], ids=lambda tiny: tiny.name)
def test_attention_and_cacheblend_are_those_of_the_deletion_engine(tiny: Tiny) -> None:
    model = build(tiny)
    context, engine = _context(IN_PLACE, model), RepairContext(model, None, SAME, "", query_ids=QUERY)  # type: ignore[arg-type]
    for policy, allocator, scores in (
        ("attention", "prophetkv", context.query_attention.mean),
        ("cacheblend", "cacheblend", shallow_deviation(context)),
    ):
        other = engine.query_attention.mean if policy == "attention" else shallow_deviation(engine)
        assert np.array_equal(scores[17:], other[17:])
        for k in (1, 8, 20, 42):
            ours = choose(policy, context, k).positions.tolist()
            # The allocator may take the last token too; the pool never holds it.
            theirs = [i for i in allocate(allocator, engine, Tokens(k)).tolist() if i != 59]
            assert len(theirs) >= k - 1
            assert set(theirs) <= set(ours)
    if tiny in MATRIX:
        stale = [(rows.keys, rows.values) for rows in read_rows(prefill(model, IDS))]
        attention = oracle.attention_scores(model, stale, QUERY)
        deviation = oracle.cacheblend_scores(model, IDS, IN_PLACE.edited_ids)
        ours = context.query_attention.mean, shallow_deviation(context)
        for found, expected in zip(ours, (attention, deviation), strict=True):
            assert np.abs(found[17:] - expected[17:]).max() <= 1e-5 * max(1.0, expected[17:].max())


@pytest.mark.parametrize("name", ["llama", "gemma3", "deepseek-v3"])
def test_two_stage_looks_again_at_the_repaired_cache(name: str) -> None:
    model = _model(name)
    context = _context(IN_PLACE, model)
    rows = [(r.keys.clone(), r.values.clone()) for r in read_rows(context.dirty)]
    for k in (1, 8, 15):
        expected = oracle.two_stage(model, rows, IN_PLACE.edited_ids, QUERY, 14, 17, -(-k // 2), k // 2)
        assert choose("two-stage", context, k).positions.tolist() == sorted([*expected.first, *expected.second])
    assert caches_equal(read_rows(context.dirty), read_rows(plain_cache(read_rows(prefill(model, IDS)))))
    assert context.shifted.counts()["missing"] == 3, "choosing repairs a copy"
    # What was refreshed already comes out the same when it is refreshed again with the rest.
    chosen = choose("two-stage", context, 15).positions
    where = sorted({14, 15, 16, *chosen.tolist()})
    once = refresh(model, context.shifted, IN_PLACE.edited_ids, where)
    assert caches_equal(read_rows(once), read_rows(refresh(model, once, IN_PLACE.edited_ids, where)))


@pytest.mark.parametrize("name", ["attention", "cacheblend", "two-stage"])
def test_the_order_of_heads_changes_nothing(name: str) -> None:
    plain, permuted = (_context(IN_PLACE, m) for m in (_model("llama"), permuted_heads(_model("llama"))))
    assert not torch.equal(read_rows(plain.dirty)[0].keys, read_rows(permuted.dirty)[0].keys)
    for k in (1, 9, 30):
        assert choose(name, plain, k).positions.tolist() == choose(name, permuted, k).positions.tolist()


def test_a_deletion_has_policies_too() -> None:
    edit = Deletion(prefix_ids=IDS[:14], deleted_ids=IDS[14:17], suffix_ids=IDS[17:])
    context = _context(edit, _model("llama"))
    assert choose("edit-local", context, 4).positions.tolist() == [14, 15, 16, 17]
    engine = RepairContext(_model("llama"), None, edit, "", query_ids=QUERY)  # type: ignore[arg-type]
    ours, theirs = choose("attention", context, 9).positions, allocate("prophetkv", engine, Tokens(9))
    assert set(theirs) - {56} <= set(ours)
    several = Edits(original_ids=tuple(IDS), changes=[Change(start=3, stop=4), Change(start=20, stop=22)])
    with pytest.raises(InputError, match="changes several places"):
        choose("edit-local", _context(several, _model("llama")), 3)


def test_delimiters_by_hand() -> None:
    yes = (".", " ;", "]}", "\n", "end.\n", "?!", "-", " *", "+", " •", "|", "12.", "3)")
    no = ("", "  ", "a.", "12", "--", "(", "[", "1.5", "- a", "..a")
    assert [text for text in (*yes, *no) if is_delimiter(text)] == list(yes)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load_model(str(save_tiny(tmp_path_factory.mktemp("tiny"))))


HEAD = "A note on gardens and water.\n\nThe open desk is "
ROWS = ". Who waits there is told below.\nThe red desk has Mara Quill.\nThe blue desk has Tom Reed.\n"
TAIL = " \nThe harbour was quiet. A red bicycle leaned there. The children counted boats on the river all day."


def _texts(loaded: LoadedModel, new: str, rows: str = ROWS, old: str = "old") -> StaleContext:
    edit = replacement_from_texts(loaded.tokenizer, f"{HEAD}{old}{rows}{TAIL}", f"{HEAD}{new}{rows}{TAIL}")
    return StaleContext(loaded.model, loaded.tokenizer, edit, "Who waits?")


def _reached(context: StaleContext, name: str) -> str:
    positions = choose(name, context).positions
    assert positions.tolist() == list(range(context.pool[0], context.pool[0] + len(positions)))
    return loaded_text(context, positions)


def loaded_text(context: StaleContext, positions: np.ndarray) -> str:
    text, spans = context.edited_text
    return text[spans[positions[0]].start : spans[positions[-1]].stop]


def test_the_boundary_is_the_first_blank_line(loaded: LoadedModel) -> None:
    context = _texts(loaded, "blue")
    assert _reached(context, "edit-local-boundary").endswith("Tom Reed.\n")
    text, spans = context.edited_text
    assert text[spans[block_stop(context)].start :].startswith(" \nThe harbour")
    last = _texts(loaded, "blue", ROWS.rstrip("\n"))
    assert block_stop(last) == len(last.deletion.edited_ids)
    assert choose("edit-local-boundary", last).positions.tolist() == last.pool.tolist()
    # The edit writes white space into a blank line: that line ends the block.
    blank = Given(["a", "\n", " ", "\n", "b", "\n", "\n", "c"], 2, 3).context
    assert choose("edit-local-boundary", blank).positions.size == 0


def test_edit_to_carrier_reaches_the_unit_that_names_the_new_words(loaded: LoadedModel) -> None:
    assert _reached(_texts(loaded, "blue"), "edit-to-carrier").endswith("Tom Reed.\n")
    assert _reached(_texts(loaded, "RED"), "edit-to-carrier").endswith("Mara Quill.\n")
    assert _reached(_texts(loaded, "blue desk"), "edit-to-carrier").endswith("Tom Reed.\n")
    # Beyond the block.
    beyond = _texts(loaded, "bicycle")
    unit = naming_unit(beyond)
    assert unit is not None
    assert unit.start > block_stop(beyond) - 1
    assert "bicycle" in loaded_text(beyond, np.arange(*unit))
    assert choose("edit-to-carrier", beyond).positions[-1] == unit.stop - 1
    # Named nowhere, or only inside longer words: the block.
    for new in ("lost", "ed", "boat"):
        nowhere = _texts(loaded, new)
        assert naming_unit(nowhere) is None
        assert choose("edit-to-carrier", nowhere).positions[-1] == block_stop(nowhere) - 1


def test_parts_of_words_stand_for_the_whole_word(loaded: LoadedModel) -> None:
    rows = ROWS.replace("red", "Belmar").replace("blue", "Beltov")
    context = _texts(loaded, "Beltov", rows, old="Belmar")
    written = loaded.tokenizer.decode(context.deletion.edited_ids[context.deletion.prefix_length :][:1])
    assert not written.strip().startswith("Bel"), "the tokenizer splits the word, and only its end changes"
    assert edited_words(context) == "Beltov"
    assert _reached(context, "edit-to-carrier").endswith("Tom Reed.\n")
    blank = _texts(loaded, "  ")
    assert edited_words(blank) == ""
    assert naming_unit(blank) is None


@pytest.mark.parametrize("name", POLICIES)
def test_policies_on_a_real_text(loaded: LoadedModel, name: str) -> None:
    for new in ("blue", "a quiet room by the river", "x"):
        chosen = choose(name, context := _texts(loaded, new), 8).positions
        assert set(chosen) <= set(context.pool)
        assert get_policy(name).own_length or len(chosen) == 8
        for signal in get_policy(name).signals:
            assert context.timings[signal.value] >= 0


def test_what_choose_refuses() -> None:
    model = _model("llama")
    context = _context(IN_PLACE, model)
    truth = _truth(20, 25)
    privileged = RepairContext(model, None, IN_PLACE, "", query_ids=QUERY)  # type: ignore[arg-type]
    for attempt, line in (
        (lambda: choose("edit-locall", context, 3), "policy 'edit-locall' is unknown; did you mean 'edit-local'"),
        (lambda: choose("edit-local", context, 43), "k = 43 of policy 'edit-local' is outside 0 to 42, the positions"),
        (lambda: choose("edit-local", context, -1), "k = -1 of policy 'edit-local' is outside 0 to 42"),
        (lambda: choose("edit-local", context), "k = None of policy 'edit-local' is no whole number"),
        (lambda: choose("causal-oracle", context, 3), "is a diagnostic: it knows the truth"),
        (lambda: diagnose("edit-local", context, truth, 3), "is deployable and is not told the truth"),
        (
            lambda: diagnose("carrier-window", context, truth, 43),
            "k = 43 of policy 'carrier-window' is outside 0 to 42",
        ),
        (lambda: choose("edit-local", privileged, 3), "must not see a clean cache, which a RepairContext can compute"),
    ):
        with pytest.raises(InputError, match=line) as error:
            attempt()
        assert "\n" not in str(error.value)
    assert "clean-cache" not in privileged.timings
    at_end = Replacement(original_ids=IDS, start=57, stop=60, replacement_ids=[7, 8, 9])
    for name in ("edit-local", "attention", "random"):
        assert choose(name, _context(at_end, model), 0).positions.size == 0
        with pytest.raises(InputError, match="outside 0 to 0"):
            choose(name, _context(at_end, model), 1)


SNIPPET = """
from cachemend.repair_core.context import RepairContext, StaleContext
from cachemend.repair_core.policies.base import Choice, Diagnostic, Policy
from cachemend.repair_core.truth import Truth


class Honest(Policy):
    name = "honest"

    def select(self, context: StaleContext, k: int) -> Choice:
        return Choice(context.pool[:k])


class Peeks(Policy):
    name = "peeks"

    def select(self, context: StaleContext, k: int) -> Choice:
        context.clean  # attr-defined
        return Choice(context.pool[:k])


class Demands(Policy):
    name = "demands"

    def select(self, context: RepairContext, k: int) -> Choice:  # override
        return Choice(context.pool[:k])


class IsTold(Policy):
    name = "is-told"

    def select(self, context: StaleContext, truth: Truth, k: int) -> Choice:  # override
        return Choice(context.pool[:k])


class Explains(Diagnostic):
    name = "explains"

    def select(self, context: StaleContext, truth: Truth, k: int) -> Choice:
        return Choice(context.pool[: len(truth.new_ids)])
"""
MYPY = """[mypy]
mypy_path = {src}
explicit_package_bases = true
namespace_packages = true
ignore_missing_imports = true
follow_imports = skip
[mypy-cachemend.repair_core.context,cachemend.repair_core.truth,cachemend.repair_core.policies.*]
follow_imports = silent
"""


def test_a_deployable_policy_cannot_see_the_truth_by_type(tmp_path: Path) -> None:
    snippet, options = tmp_path / "snippet.py", tmp_path / "mypy.ini"
    snippet.write_text(SNIPPET, encoding="utf-8")
    options.write_text(MYPY.format(src=Path(__file__).parents[2] / "src"), encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file", str(options), "--cache-dir", str(tmp_path), str(snippet)]
    out = subprocess.run(command, capture_output=True, text=True, check=False)
    found = {
        (int(line.split(":")[1]), line.rsplit("[", 1)[1].rstrip("]"))
        for line in out.stdout.splitlines()
        if ": error:" in line
    }
    lines = SNIPPET.splitlines()
    expected = {(i + 1, lines[i].split("# ")[1]) for i in range(len(lines)) if "  # " in lines[i]}
    assert found == expected, out.stdout + out.stderr


def test_repair_of_an_allocator_takes_a_replacement(loaded: LoadedModel) -> None:
    context = _texts(loaded, "blue")
    done = repair(loaded.model, loaded.tokenizer, context.deletion, "Who waits?", Tokens(6))
    assert len(done.positions) == 6
    assert done.inserted.tolist() == context.deletion.inserted_positions.tolist()
