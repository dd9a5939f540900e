"""The stage that writes a cohort down: rows of `cases`, with and without texts, and where each token ends."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerBase

from cachemend.datasets.edit_rosters import EDIT_ROSTERS
from cachemend.datasets.niah import NiahCase, NiahRoster, build_niah
from cachemend.datasets.niah_rosters import PAPER_96
from cachemend.repair_core.errors import InputError
from cachemend.repair_core.models import load_tokenizer
from cachemend.tasks.build_cohort import Wanted, build_cohorts
from cachemend.tasks.token_stops import token_stops as stops_in_text
from cachemend.tasks.worker_spec import WorkerSpec
from cachemend.warehouse import store

from support.tiny_checkpoint import save_tiny

ROSTER: NiahRoster = replace(PAPER_96, lengths=(320, 400), cases_per_length=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    return load_tokenizer(str(folder), None, False)


def build(folder: Path, results: Path, **changes: object) -> Path:
    spec = WorkerSpec(model=str(folder), max_new_tokens=8, score_rule="niah-list-v1")
    settings = {"results": results, "limit": None, "store_text": False, **changes}
    (file,) = build_cohorts.fn([Wanted("erasing-niah", ROSTER, "run-1")], spec, **settings)
    return file


def token_stops(tokenizer: PreTrainedTokenizerBase, case: NiahCase) -> list[int] | None:
    return stops_in_text(tokenizer, case.deletion.edited_ids, case.context_text)


def pieces(case: NiahCase, stops: list[int]) -> list[str]:
    return [case.context_text[start:stop] for start, stop in zip([0, *stops], stops, strict=False)]


def test_stops_cut_the_text_into_its_tokens(tokenizer: PreTrainedTokenizerBase) -> None:
    for case in build_niah(tokenizer, ROSTER).cases:
        stops = token_stops(tokenizer, case)
        assert stops is not None
        assert len(stops) == case.n_tokens
        assert stops == sorted(stops)
        assert stops[-1] == len(case.context_text)
        ids = case.deletion.edited_ids
        for token, piece in zip(ids, pieces(case, stops), strict=True):
            assert piece == tokenizer.decode([token], skip_special_tokens=False)


def test_an_opening_token_outside_the_text_has_no_width(tokenizer: PreTrainedTokenizerBase) -> None:
    case = build_niah(tokenizer, ROSTER).cases[0]
    opening = tokenizer.bos_token_id
    assert case.prefix_ids[0] == opening
    assert case.context_text.startswith(tokenizer.bos_token)
    bare = replace(case, context_text=case.context_text.removeprefix(tokenizer.bos_token))
    stops, whole = token_stops(tokenizer, bare), token_stops(tokenizer, case)
    assert stops is not None
    assert whole is not None
    assert stops[0] == 0
    assert pieces(bare, stops)[1:] == pieces(case, whole)[1:]


def test_no_stops_where_the_tokenizer_gives_another_text(tokenizer: PreTrainedTokenizerBase) -> None:
    case = build_niah(tokenizer, ROSTER).cases[0]
    assert token_stops(tokenizer, replace(case, context_text=case.context_text.upper())) is None
    assert token_stops(tokenizer, replace(case, context_text=case.context_text + " and more")) is None


@pytest.mark.parametrize("store_text", [False, True])
def test_rows_hold_texts_only_where_asked(folder: Path, tmp_path: Path, store_text: bool) -> None:
    file = build(folder, tmp_path, store_text=store_text)
    content = json.loads(file.read_text(encoding="utf-8"))
    known = {case["case_id"]: case for case in content["cases"]}
    rows = store.query(tmp_path, "FROM cases").to_pylist()
    assert {row["case_id"] for row in rows} == known.keys()
    for row in rows:
        case = known[row["case_id"]]
        for name in ("context_text", "deleted_text", "query_text"):
            assert row[name] == (case[name] if store_text else None)
        assert len(row["token_stops"]) == row["n_tokens"] == len(case["prefix_ids"]) + len(case["suffix_ids"])
        assert row["token_stops"][-1] == len(case["context_text"])


def test_a_limited_run_writes_its_cases_and_the_whole_cohort(folder: Path, tmp_path: Path) -> None:
    file = build(folder, tmp_path, limit=1)
    assert len(json.loads(file.read_text(encoding="utf-8"))["cases"]) == 2
    assert store.query(tmp_path, "FROM cases").num_rows == 1


def test_a_case_the_model_cannot_hold_is_named_before_anything_is_written(tmp_path: Path) -> None:
    short = save_tiny(tmp_path / "short", context=350)
    with pytest.raises(InputError, match=r"needs \d+ tokens and model .* holds 350") as caught:
        build(short, tmp_path / "results")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "results").exists()


def test_nothing_is_written_where_a_later_cohort_cannot_be_built(folder: Path, tmp_path: Path) -> None:
    short = replace(EDIT_ROSTERS["embedded-dev"], n_tokens=60)
    wanted = [Wanted("erasing-niah", ROSTER, "run-1"), Wanted("edit-repair", short, "run-2")]
    spec = WorkerSpec(model=str(folder), max_new_tokens=8, score_rule="flip/1")
    with pytest.raises(InputError, match=r"no usable candidate .* give a longer length$") as caught:
        build_cohorts.fn(wanted, spec, results=tmp_path / "results", limit=None, store_text=False)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "results").exists()


def test_items_keep_their_length_under_the_other_tokenizers_too(folder: Path, tmp_path: Path) -> None:
    counts = {"n_items": 2, "n_others": 0, "n_candidates": 2, "max_candidates": 2}
    roster = replace(EDIT_ROSTERS["embedded-dev"], conditions=("direct",), distances=(0,), n_tokens=700, **counts)
    spec = WorkerSpec(model="smollm2-135m", max_new_tokens=8, score_rule="flip/1")

    def built(*others: str) -> dict:
        wanted = [Wanted("edit-repair", roster, "run-1", others)]
        (file,) = build_cohorts.fn(wanted, spec, results=tmp_path, limit=None, store_text=False)
        return json.loads(file.read_text(encoding="utf-8"))

    tokenizer = load_tokenizer(str(folder), None, False)
    content = built(str(folder))
    assert [other["name"] for other in content["manifest"]["other_tokenizers"]] == [folder.name]
    for case in content["cases"]:
        before = case["context_text"].replace(case["new_span_text"], case["old_span_text"])
        assert before != case["context_text"]
        assert len(tokenizer(before)["input_ids"]) == len(tokenizer(case["context_text"])["input_ids"])
    # The model's own tokenizer alone is content with other names.
    assert len(built()["manifest"]["drops"]) < len(content["manifest"]["drops"])
    with pytest.raises(InputError, match=r"^tokenizers: model folder /nowhere does not exist"):
        built("/nowhere")
