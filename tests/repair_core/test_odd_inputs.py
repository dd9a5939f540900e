"""What is no edit, no query, no number: one line that names the input, before any work."""

from collections.abc import Callable
from typing import Any

import pytest

from cachemend.repair_core import (
    InputError,
    LoadedModel,
    Replacement,
    StaleContext,
    Tokens,
    choose,
    load_model,
    prefill,
    repair,
    repair_batch,
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
