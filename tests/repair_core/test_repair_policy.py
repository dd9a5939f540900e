"""`repair` by a policy or a decision table: what it decides, computes and refuses."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cachemend.repair_core import (
    Deletion,
    InputError,
    LoadedModel,
    Refused,
    RepairContext,
    Tokens,
    load_model,
    prefill,
    refresh,
    repair,
    repair_batch,
    shift,
)
from cachemend.repair_core import context as context_module
from cachemend.repair_core import planning as planning_module
from cachemend.repair_core import repairing as repairing_module
from cachemend.repair_core.caches import clone_rows, read_rows
from cachemend.repair_core.context import StaleContext
from cachemend.repair_core.decision_rules import RE_PREFILL, Action, Evidence, Rule, When
from cachemend.repair_core.decision_table import DecisionTable, Derivation
from cachemend.repair_core.edits import Change, Edits
from cachemend.repair_core.features import edit_features
from cachemend.repair_core.invariants import caches_equal, changed_rows
from cachemend.repair_core.models import fingerprint
from cachemend.repair_core.policies import DIAGNOSTICS, POLICIES, choose, get_policy
from cachemend.repair_core.replacement import Replacement, replacement_from_texts

from support.tiny_checkpoint import save_tiny
from support.tiny_models import BY_NAME, build

FILLER = "The baker opened the shop before the sun came up. Music drifted from an open window.\n\n"
RECORD = "The route in use for Brunholt is {}.\n"
ROWS = "On the amber route, the driver is Marlow.\nOn the falcon route, the driver is Quill.\n\n"
QUERY = "Who is the driver for Brunholt?"
K = 6


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load_model(str(save_tiny(tmp_path_factory.mktemp("tiny"))))


def edit_of(loaded: LoadedModel, tail: str = ROWS + FILLER, new: str = "falcon") -> Replacement:
    head = FILLER + RECORD
    return replacement_from_texts(loaded.tokenizer, head.format("amber") + tail, head.format(new) + tail)


def in_place(loaded: LoadedModel, start: int = 25, count: int = 3) -> Replacement:
    ids = edit_of(loaded).original_ids
    return Replacement(original_ids=ids, start=start, stop=start + count, replacement_ids=[7 + i for i in range(count)])


def table(loaded: LoadedModel, do: dict[str, Action], otherwise: Action, **more: Any) -> DecisionTable:
    rules = tuple(
        Rule(when=When(named=named), do=action, evidence=Evidence(n=30, mean=1.0, low=0.95))
        for named, action in do.items()
    )
    derived = Derivation(cohort_digest="abc", n_items=40)
    stated = {"model": "tiny", "fingerprint": fingerprint(loaded.model), "derived_from": derived}
    return DecisionTable(**{**stated, "rules": rules, "otherwise": otherwise, **more})


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("make", [edit_of, in_place])
def test_one_call_is_the_steps_by_hand(loaded: LoadedModel, policy: str, make: Any) -> None:
    model, edit = loaded.model, make(loaded)
    own = get_policy(policy).own_length
    dirty = prefill(model, edit.original_ids)
    before = clone_rows(read_rows(dirty))
    done = repair(
        model, loaded.tokenizer, edit, QUERY, None if own else Tokens(K), cache=dirty, policy=policy, case_id="c"
    )
    context = StaleContext(model, loaded.tokenizer, edit, QUERY, dirty=prefill(model, edit.original_ids), case_id="c")
    choice = choose(policy, context, K)
    span = np.arange(*edit.span)
    by_hand = refresh(model, shift(model, dirty, edit), edit.edited_ids, np.union1d(choice.positions, span))
    assert caches_equal(read_rows(done.cache), read_rows(by_hand))
    assert done.positions.tolist() == choice.positions.tolist()
    assert own or len(done.positions) == K
    assert done.inserted.tolist() == span.tolist()
    assert done.decision == (policy if own else f"{policy}@{K}")
    assert [u for run in done.intervals for u in range(*run)] == done.positions.tolist()
    assert {"signal", "allocate", "shift", "refresh"} == set(done.timings)
    assert min(done.timings.values()) >= 0
    assert caches_equal(read_rows(dirty), before)
    if edit.in_place:
        changed = changed_rows(before, read_rows(done.cache))
        assert set(changed.tolist()) <= {*done.positions.tolist(), *span.tolist()}


def test_the_budget_of_a_policy_is_32_positions_unless_given(loaded: LoadedModel) -> None:
    edit = edit_of(loaded)
    assert edit.pool.size > 32
    done = repair(loaded.model, loaded.tokenizer, edit, QUERY, policy="edit-local")
    assert (done.decision, done.positions.tolist()) == ("edit-local@32", edit.pool[:32].tolist())
    assert "prefill" in done.timings
    none = repair(loaded.model, loaded.tokenizer, edit, QUERY, Tokens(0), policy="sur")
    assert (none.decision, none.positions.size) == ("sur@0", 0)
    every = repair(loaded.model, loaded.tokenizer, edit, QUERY, Tokens(edit.pool.size), policy="attention")
    assert every.cache.counts()["stale"] == 1


@pytest.mark.parametrize("policy", [p for p in POLICIES if not get_policy(p).own_length])
def test_a_budget_that_is_left_out_is_cut_to_the_pool(loaded: LoadedModel, policy: str) -> None:
    ids = edit_of(loaded).original_ids
    for behind in (1, 2, 6, 34):
        start = len(ids) - behind - 2
        edit = Replacement(original_ids=ids, start=start, stop=start + 2, replacement_ids=[4, 9])
        done = repair(loaded.model, loaded.tokenizer, edit, QUERY, policy=policy, case_id="c")
        expected = min(32, behind - 1)
        assert (done.decision, done.positions.size) == (f"{policy}@{expected}", expected)
        if behind < 34:
            with pytest.raises(InputError, match=f"k = 32 of policy '{policy}' is outside 0 to {behind - 1}"):
                repair(loaded.model, loaded.tokenizer, edit, QUERY, Tokens(32), policy=policy)


def test_allocators_say_what_they_did_too(loaded: LoadedModel) -> None:
    edit = edit_of(loaded)
    for budget, name in ((None, "sur@5%"), (5.0, "sur@5%"), ("33.3", "sur@33.3%"), (Tokens(9), "sur@9")):
        assert repair(loaded.model, loaded.tokenizer, edit, QUERY, budget).decision == name
    (one,) = repair_batch(loaded.model, loaded.tokenizer, [edit], [QUERY], 20, allocator="bm25-units")
    assert one.decision == "bm25-units@20%"


def test_other_edits_of_one_place(loaded: LoadedModel) -> None:
    ids = edit_of(loaded).original_ids
    model, tokenizer = loaded.model, loaded.tokenizer
    replaced = Replacement(original_ids=ids, start=20, stop=22, replacement_ids=[9, 8, 7])
    as_edits = Edits(original_ids=ids, changes=[Change(start=20, stop=22, replacement_ids=[9, 8, 7])])
    inserted = Edits(original_ids=ids, changes=[Change(start=20, stop=20, replacement_ids=[9])])
    deleted = Deletion(prefix_ids=ids[:20], deleted_ids=ids[20:22], suffix_ids=ids[22:])
    one, two = (repair(model, tokenizer, e, QUERY, Tokens(K), policy="edit-local") for e in (replaced, as_edits))
    assert caches_equal(read_rows(one.cache), read_rows(two.cache))
    assert repair(model, tokenizer, inserted, QUERY, Tokens(K), policy="edit-local").positions.tolist() == list(
        range(21, 21 + K)
    )
    done = repair(model, tokenizer, deleted, QUERY, Tokens(K), policy="edit-local")
    assert (done.positions.tolist(), done.inserted.size) == (list(range(20, 20 + K)), 0)
    assert done.cache.counts()["missing"] == 0


def test_a_table_decides_by_the_features(loaded: LoadedModel) -> None:
    near, far, none = (edit_of(loaded, tail) for tail in (ROWS + FILLER, "\n" + FILLER + ROWS, "\n" + FILLER * 2))
    features = [edit_features(StaleContext(loaded.model, loaded.tokenizer, e, QUERY)) for e in (near, far, none)]
    assert [f.named for f in features] == ["in-block", "beyond", "nowhere"]
    do = {"in-block": Action(policy="edit-local", k=11), "beyond": Action(policy="edit-to-carrier")}
    policy = table(loaded, do, Action(policy=RE_PREFILL))
    done = [repair(loaded.model, loaded.tokenizer, e, QUERY, policy=policy) for e in (near, far, none)]
    assert [d.decision for d in done] == ["edit-local@11", "edit-to-carrier", "re-prefill"]
    assert done[0].positions.tolist() == near.pool[:11].tolist()
    by_name = repair(loaded.model, loaded.tokenizer, far, QUERY, policy="edit-to-carrier")
    assert caches_equal(read_rows(done[1].cache), read_rows(by_name.cache))
    assert done[2].cache.is_clean
    assert caches_equal(read_rows(done[2].cache), read_rows(prefill(loaded.model, none.edited_ids)))
    assert set(done[2].timings) == {"signal", "allocate", "re-prefill"}, "the stale cache was not even made"


def test_a_tables_k_is_cut_to_what_is_downstream(loaded: LoadedModel) -> None:
    edit = in_place(loaded)
    policy = table(loaded, {}, Action(policy="edit-local", k=10_000))
    done = repair(loaded.model, loaded.tokenizer, edit, QUERY, policy=policy)
    assert done.decision == f"edit-local@{edit.pool.size}"
    assert done.positions.tolist() == edit.pool.tolist()


def test_a_table_as_a_file(loaded: LoadedModel, tmp_path: Path) -> None:
    policy = table(loaded, {"in-block": Action(policy="edit-local", k=4)}, Action(policy=RE_PREFILL))
    path = tmp_path / "edit-policy.json"
    path.write_text(policy.to_json(), encoding="utf-8")
    edit = edit_of(loaded)
    found = [repair(loaded.model, loaded.tokenizer, edit, QUERY, policy=given) for given in (policy, path, str(path))]
    assert {one.decision for one in found} == {"edit-local@4"}
    assert all(caches_equal(read_rows(found[0].cache), read_rows(one.cache)) for one in found[1:])


def test_no_clean_cache_is_made_and_no_answer_asked_for(loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    edit, seen = in_place(loaded), []
    real = context_module.prefill

    def watched(model: Any, ids: Any) -> Any:
        seen.append(tuple(ids))
        return real(model, ids)

    def forbidden(*_: Any, **__: Any) -> None:
        raise AssertionError("a context with a clean cache was made")

    monkeypatch.setattr(context_module, "prefill", watched)
    monkeypatch.setattr(repairing_module, "prefill", watched)
    monkeypatch.setattr(planning_module, "RepairContext", forbidden)
    for policy in POLICIES:
        repair(loaded.model, loaded.tokenizer, edit, QUERY, Tokens(K), policy=policy)
    assert seen == [edit.original_ids] * len(POLICIES)


@pytest.mark.parametrize("name", ["gpt2", "llama-dynamic", "qwen3"])
def test_models_whose_keys_cannot_move_repair_in_place(loaded: LoadedModel, name: str) -> None:
    model = build(BY_NAME[name])
    ids = np.random.default_rng(0).integers(3, 200, 36).tolist()
    edit = Replacement(original_ids=ids, start=12, stop=14, replacement_ids=[3, 4])
    done = repair(model, loaded.tokenizer, edit, "a", Tokens(21), policy="edit-local")
    clean = read_rows(prefill(model, edit.edited_ids))
    for ours, theirs in zip(read_rows(done.cache), clean, strict=True):
        for x, y in zip(ours, theirs, strict=True):
            assert (x - y)[:, :, :35].abs().max() <= 1e-4 * y.abs().max(), "contiguous from the edit: all but the last"
    longer = Replacement(original_ids=ids, start=12, stop=14, replacement_ids=[3, 4, 5])
    if BY_NAME[name].no_shift:
        with pytest.raises(Refused):
            repair(model, loaded.tokenizer, longer, "a", Tokens(4), policy="edit-local")


def _several(ids: Any) -> Edits:
    changes = [Change(start=2, stop=3, replacement_ids=[50]), Change(start=9, stop=10, replacement_ids=[51])]
    return Edits(original_ids=ids, changes=changes)


BAD = [
    ({"policy": "edit-lokal"}, "policy 'edit-lokal' is unknown; did you mean 'edit-local'"),
    ({"policy": "edit-local", "budget": Tokens(10_000)}, "10000 of policy 'edit-local' is outside 0 to"),
    ({"policy": "edit-local", "budget": 5}, "budget 5 of policy 'edit-local' is no number of positions; give Tokens"),
    ({"policy": "edit-local", "budget": "5"}, "budget '5' of policy"),
    ({"policy": "edit-local", "allocator": "sur"}, "allocator 'sur' is given together with a policy"),
    ({"policy": "nowhere/policy.json"}, "decision table 'nowhere/policy.json' cannot be read"),
    ({"policy": 3}, "policy is a int; give a name"),
    ({"policy": "edit-local", "executor": "bottom-right"}, "executor 'bottom-right' repairs nothing; .*packed"),
    ({"executor": "bottom-right"}, "executor 'bottom-right' repairs nothing"),
    ({"policy": "edit-local", "executor": "packt"}, "executor 'packt' is unknown; did you mean 'packed'"),
    ({"policy": "edit-local", "staleness_limit": -1}, "staleness limit -1"),
    ({"allocator": "edit-local"}, "allocator 'edit-local' is unknown"),
    *(({"policy": name, "budget": Tokens(K)}, f"policy '{name}' is a diagnostic") for name in DIAGNOSTICS),
]


@pytest.mark.parametrize(("given", "message"), BAD)
def test_bad_input_is_one_line_and_comes_before_any_work(
    loaded: LoadedModel, given: dict, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_work(*_: Any, **__: Any) -> None:
        raise AssertionError("the model ran")

    monkeypatch.setattr(context_module, "prefill", no_work)
    with pytest.raises(InputError, match=message) as caught:
        repair(loaded.model, loaded.tokenizer, edit_of(loaded), QUERY, **given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("given", [{}, {"policy": "edit-local"}, {"policy": RE_PREFILL}, {"cached": True}])
def test_unknown_tokens_of_an_edit_are_named_before_any_work(
    loaded: LoadedModel, given: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = edit_of(loaded).original_ids
    vocabulary = loaded.model.get_input_embeddings().weight.shape[0]
    given = dict(given)
    cache = prefill(loaded.model, ids) if given.pop("cached", False) else None

    def no_work(*_: Any, **__: Any) -> None:
        raise AssertionError("the model ran")

    monkeypatch.setattr(loaded.model.get_input_embeddings(), "forward", no_work)
    for unknown in (vocabulary, 99_999):
        message = f"token id {unknown} is outside the model's vocabulary of {vocabulary} tokens"
        replaced = Replacement(original_ids=ids, start=4, stop=6, replacement_ids=[7, unknown])
        several = Edits(original_ids=ids, changes=[Change(start=3, stop=3, replacement_ids=[unknown])])
        gone = Deletion(prefix_ids=ids[:4], deleted_ids=[unknown], suffix_ids=ids[5:])
        for edit in (replaced, several, gone):
            with pytest.raises(InputError, match=message) as caught:
                repair(loaded.model, loaded.tokenizer, edit, QUERY, cache=cache, **given)
            assert "\n" not in str(caught.value)
            if not given:
                with pytest.raises(InputError, match=message):
                    repair_batch(loaded.model, loaded.tokenizer, [edit, edit], [QUERY, QUERY])
    with pytest.raises(InputError, match="whole numbers"):
        repair(
            loaded.model, loaded.tokenizer, Replacement(original_ids=ids, start=4, stop=5, replacement_ids=[2**70]), ""
        )


def test_a_batch_is_not_repaired_by_a_control(loaded: LoadedModel) -> None:
    edit = edit_of(loaded)
    with pytest.raises(InputError, match="executor 'bottom-right' repairs nothing"):
        repair_batch(loaded.model, loaded.tokenizer, [edit], [QUERY], executor="bottom-right")


def test_bad_edits_and_tables_are_one_line(loaded: LoadedModel) -> None:
    ids = edit_of(loaded).original_ids
    policy = table(loaded, {}, Action(policy="edit-local", k=4))
    other = table(loaded, {}, Action(policy="edit-local", k=4), fingerprint="0123456789abcdef")
    edit = in_place(loaded)

    def call(what: Any, **given: Any) -> None:
        repair(loaded.model, loaded.tokenizer, what, QUERY, **given)

    attempts: list[tuple[Any, str]] = [
        (lambda: call(_several(ids), policy="edit-local"), "several places"),
        (lambda: call(_several(ids), policy=policy), "several places"),
        (lambda: call(edit, policy=policy, budget=Tokens(4)), "beside a decision table, which sets its own"),
        (lambda: call(edit, policy=other), "was measured on model 'tiny' .0123456789abcdef., this one is"),
        (lambda: call(edit, policy="edit-local", cache=prefill(loaded.model, ids[:-1])), "the cache holds"),
        (lambda: call(edit, policy=RE_PREFILL, cache=prefill(loaded.model, ids[:-1])), "the cache holds"),
        (
            lambda: Replacement(original_ids=ids, start=3, stop=len(ids) + 1, replacement_ids=[4]),
            "ends behind the context",
        ),
        (lambda: Replacement(original_ids=ids, start=3, stop=5, replacement_ids=ids[3:5]), "nothing changes"),
        (lambda: replacement_from_texts(loaded.tokenizer, FILLER, FILLER), "are equal"),
    ]
    for attempt, message in attempts:
        with pytest.raises(InputError, match=message) as caught:
            attempt()
        assert "\n" not in str(caught.value)
    anywhere = table(loaded, {}, Action(policy="edit-local", k=4), fingerprint=None)
    assert repair(loaded.model, loaded.tokenizer, edit, QUERY, policy=anywhere).decision == "edit-local@4"
    assert repair(loaded.model, loaded.tokenizer, edit, QUERY, policy=policy).decision == "edit-local@4"


def test_an_edit_at_the_end_leaves_nothing_to_choose(loaded: LoadedModel) -> None:
    ids = edit_of(loaded).original_ids
    edit = Replacement(original_ids=ids, start=len(ids) - 2, stop=len(ids), replacement_ids=[4, 9])
    with pytest.raises(InputError, match="outside 0 to 0"):
        repair(loaded.model, loaded.tokenizer, edit, QUERY, Tokens(1), policy="edit-local")
    for given in ({"budget": Tokens(0), "policy": "edit-local"}, {"policy": "edit-local-boundary"}):
        done = repair(loaded.model, loaded.tokenizer, edit, QUERY, **given)  # type: ignore[arg-type]
        assert done.cache.is_clean
        assert done.positions.size == 0
    assert torch.equal(done.cache.row_states, torch.zeros_like(done.cache.row_states))
    assert isinstance(RepairContext(loaded.model, loaded.tokenizer, edit, QUERY), StaleContext)
