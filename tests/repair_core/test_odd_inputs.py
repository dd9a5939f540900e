"""What is no edit, no query, no number: one line that names the input, before any work."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cachemend.repair_core import (
    Change,
    InputError,
    LoadedModel,
    Replacement,
    StaleContext,
    Tokens,
    choose,
    edit_features,
    load_model,
    prefill,
    refresh,
    repair,
    repair_batch,
    replacement_from_texts,
)
from cachemend.repair_core.decision_rules import Action, Evidence, When
from cachemend.repair_core.decision_table import DecisionTable, Derivation
from cachemend.repair_core.policies import POLICIES
from cachemend.repair_core.spot_checking import sampled, spot_check

from support.tiny_checkpoint import save_tiny

QUERY = "Which route is it?"


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load_model(str(save_tiny(tmp_path_factory.mktemp("tiny"))))


@pytest.fixture(scope="module")
def edit(loaded: LoadedModel) -> Replacement:
    text = "The baker opened the shop before the sun came up. The route in use is amber. Music drifted from a window."
    ids = loaded.tokenizer(text, add_special_tokens=False)["input_ids"]
    return Replacement(original_ids=ids, start=5, stop=6, replacement_ids=[7])


def _line(call: Callable[[], object]) -> str:
    with pytest.raises(InputError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("policy", [None, "edit-local", "attention"])
def test_what_is_no_edit_or_no_query_is_named(loaded: LoadedModel, edit: Replacement, policy: str | None) -> None:
    model, tokenizer = loaded.model, loaded.tokenizer
    for odd, kind in ((None, "NoneType"), ("text", "str"), ([1, 2], "list")):
        told = _line(lambda odd=odd: repair(model, tokenizer, odd, QUERY, policy=policy))  # type: ignore[misc]
        assert told == f"edit is a {kind}; give a Deletion, a Replacement or Edits"
    for odd, kind in ((None, "NoneType"), (3, "int"), (["a"], "list")):
        told = _line(lambda odd=odd: repair(model, tokenizer, edit, odd, policy=policy))  # type: ignore[misc]
        assert told == f"query is {odd!r}, a {kind}; give the text of the next query"


@pytest.mark.parametrize("given", [{"policy": p} for p in POLICIES] + [{"allocator": a} for a in ("infoflow", "sur")])
def test_the_cache_of_a_batch_is_named(loaded: LoadedModel, edit: Replacement, given: dict[str, str]) -> None:
    both = prefill(loaded.model, [edit.original_ids] * 2)
    told = _line(lambda: repair(loaded.model, loaded.tokenizer, edit, QUERY, Tokens(3), cache=both, **given))
    assert told.startswith("the cache holds 2 sequences, this call is for 1; give `repair` one of one sequence")


def test_a_batch_of_odd_parts_is_named(loaded: LoadedModel, edit: Replacement) -> None:
    def batch(edits: Any, queries: Any, **more: Any) -> str:
        return _line(lambda: repair_batch(loaded.model, loaded.tokenizer, edits, queries, **more))

    assert batch([], []) == "edits is []; give a list of one edit per sequence"
    assert batch(None, None) == "edits is None; give a list of one edit per sequence"
    assert batch([edit, None], [QUERY] * 2).startswith("edits[1] is a NoneType; give a Deletion")
    assert batch([edit], QUERY) == f"queries is {QUERY!r}; give a list of one text per sequence"
    assert batch([edit], [None]) == "queries[0] is None, a NoneType; give the text of the next query"
    one = prefill(loaded.model, edit.original_ids)
    assert batch([edit] * 2, [QUERY] * 2, cache=one).startswith("the cache holds 1 sequences, this call is for 2")


def test_a_table_from_nowhere_is_named() -> None:
    for odd in (None, 3, ["policy.json"]):
        assert _line(lambda odd=odd: DecisionTable.load(odd)) == (  # type: ignore[misc]
            f"decision table {odd!r} is no path; give that of a JSON file"
        )


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Action(policy="edit-local", k="3"), "k='3' of policy 'edit-local' is no whole number"),
        (lambda: Action(policy="edit-local", k=3.0), "k=3.0 of policy 'edit-local' is no whole number"),
        (lambda: Action(policy="edit-local", k=True), "k=True of policy 'edit-local' is no whole number"),
        (lambda: Action(policy=None), "policy must be of type str, not NoneType"),
        (lambda: Action.of_arm(None), "arm must be of type str, not NoneType"),
        (lambda: When(query_overlap="yes"), "feature query_overlap cannot be 'yes'; give True, False or None"),
        (lambda: When(query_overlap=1), "feature query_overlap cannot be 1; give True, False or None"),
        (lambda: When(named=["in-block"]), r"feature named cannot be \['in-block'\]"),
        (lambda: Evidence(n="3", mean=1.0, low=0.9), "n='3' of the evidence is no number"),
        (lambda: Evidence(n=3, mean=None, low=0.9), "mean=None of the evidence is no number"),
        (lambda: Evidence(n=3, mean=1.0, low=True), "low=True of the evidence is no number"),
        (lambda: sampled("case", "0.5", 1), "fraction '0.5' is no number"),
        (lambda: sampled("case", True, 1), "fraction True is no number"),
        (lambda: sampled("case", np.bool_(True), 1), "fraction .* is no number"),
        (lambda: sampled("\ud800", 0.5, 0), r"case_id '\\ud800' cannot be written as UTF-8"),
        (lambda: edit_features(None), "context is a NoneType; give a StaleContext"),
        (lambda: choose("edit-local", None, 3), "context of policy 'edit-local' is a NoneType; give a StaleContext"),
    ],
)
def test_parts_of_odd_types_are_named(make: Callable[[], object], told: str) -> None:
    with pytest.raises(InputError, match=told):
        make()


def test_a_table_of_a_model_without_a_name_is_named() -> None:
    shared = {
        "derived_from": Derivation(cohort_digest="x", n_items=1),
        "rules": (),
        "otherwise": Action(policy="re-prefill"),
    }
    for odd in ({"model": 3, "fingerprint": None}, {"model": "m", "fingerprint": 4}):
        assert "must be of type str, not int" in _line(lambda odd=odd: DecisionTable(**shared, **odd))  # type: ignore[misc]


def test_odd_arguments_of_other_calls_are_named(loaded: LoadedModel, edit: Replacement) -> None:
    model, tokenizer = loaded.model, loaded.tokenizer
    assert _line(lambda: repair(model, tokenizer, edit, QUERY, executor=None)).startswith("executor None is unknown")  # type: ignore[arg-type]
    assert _line(lambda: repair(model, tokenizer, edit, QUERY, allocator=3)).startswith("allocator 3 is unknown")  # type: ignore[arg-type]
    context = StaleContext(model, tokenizer, edit, QUERY)
    assert _line(lambda: choose("edit-local", context, True)).startswith("k = True of policy 'edit-local' is no whole")
    cache = prefill(model, edit.edited_ids)
    assert _line(lambda: spot_check(model, cache, edit.edited_ids, None)).startswith("query_ids must be a flat list")  # type: ignore[arg-type]
    assert _line(lambda: spot_check(model, cache, None, [3])).startswith("edited_ids must be a flat list")  # type: ignore[arg-type]


def test_texts_and_contexts_of_odd_types_are_named(loaded: LoadedModel, edit: Replacement) -> None:
    model, tokenizer = loaded.model, loaded.tokenizer

    def texts(*given: Any) -> str:
        return _line(lambda: replacement_from_texts(*given))

    assert texts(None, "a", "b") == "tokenizer is a NoneType; give that of the model"
    assert texts(tokenizer, None, "a") == "before is None, a NoneType; give the text of the context before the edit"
    assert texts(tokenizer, 3, 4).startswith("before is 3, a int; give the text")
    assert texts(tokenizer, ["a"], ["b"]).startswith("before is ['a'], a list; give the text")
    assert texts(tokenizer, "a", None) == "after is None, a NoneType; give the text of the context after the edit"
    assert _line(lambda: StaleContext(model, tokenizer, None, QUERY)).startswith("deletion is a NoneType; give a D")  # type: ignore[arg-type]
    told = _line(lambda: StaleContext(model, tokenizer, edit, query=None))  # type: ignore[arg-type]
    assert told == "query is None, a NoneType; give the text of the next query"
    context = StaleContext(model, tokenizer, edit, QUERY)
    assert _line(lambda: choose(["a"], context, 3)).startswith("policy ['a'] is unknown; known: ")  # type: ignore[arg-type]
    assert _line(lambda: repair(model, tokenizer, edit, QUERY, allocator=["a"])).startswith("allocator ['a'] is")  # type: ignore[arg-type]


@pytest.mark.parametrize("policy", ["a\0.json", Path("a\0.json"), "\ud800.json"])
def test_a_path_that_no_system_takes_is_named(loaded: LoadedModel, edit: Replacement, policy: str | Path) -> None:
    told = _line(lambda: repair(loaded.model, loaded.tokenizer, edit, QUERY, policy=policy))
    assert told.startswith(f"decision table {str(policy)!r} cannot be read (")


def test_an_unknown_policy_of_a_repair_is_offered_what_can_be_deployed(loaded: LoadedModel, edit: Replacement) -> None:
    told = _line(lambda: repair(loaded.model, loaded.tokenizer, edit, QUERY, policy="edit-lokal"))
    known = ", ".join(sorted((*POLICIES, "re-prefill")))
    assert told == f"policy 'edit-lokal' is unknown; did you mean 'edit-local'? known: {known}"


def test_truth_values_are_no_positions_and_no_tokens() -> None:
    for odd in (
        {"start": True, "stop": 2},
        {"start": 0, "stop": True},
        {"original_ids": [4, True, 6]},
        {"replacement_ids": [True]},
    ):
        given: dict[str, Any] = {"original_ids": [4, 5, 6], "start": 0, "stop": 1, "replacement_ids": [9]} | odd
        assert "True is a truth value" in _line(lambda given=given: Replacement(**given))  # type: ignore[misc]
    assert "True is a truth value" in _line(lambda: Change(start=True, stop=2))
    made = Replacement(original_ids=np.array([4, 5, 6]), start=np.int64(0), stop=np.int32(1), replacement_ids=[9])  # type: ignore[arg-type]
    assert made == Replacement(original_ids=(4, 5, 6), start=0, stop=1, replacement_ids=[9])


def test_numbers_of_numpy_are_numbers() -> None:
    cases = [f"case {i}" for i in range(200)]
    for own, other in ((0.25, np.float32(0.25)), (0.3, np.float64(0.3)), (1, np.int64(1))):
        assert [sampled(case, own, 1) for case in cases] == [sampled(case, other, 1) for case in cases]  # type: ignore[arg-type]


def test_positions_of_a_refresh_are_whole_numbers(loaded: LoadedModel, edit: Replacement) -> None:
    cache = prefill(loaded.model, edit.original_ids)

    def told(positions: Any) -> str:
        return _line(lambda: refresh(loaded.model, cache, edit.original_ids, positions))

    for odd, named in (([1.5], "1.5"), ([[0, 2.5]], "2.5"), ([2.0], "2.0"), ([True], "True"), (["1"], "'1'")):
        assert told(odd) == f"positions hold {named}; give the whole numbers of tokens"
    assert told([[1], [2, 3]]).startswith("positions must be whole numbers in rows of equal lengths")
