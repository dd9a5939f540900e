"""Cohort identity: digests, prefixes, files, and the same cohort in every process."""

import json
import os
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerBase

from cachemend.datasets.cohort import Cohort, cohort_digest, read_cohort, write_cohort
from cachemend.datasets.niah import ROSTERS, NiahCase, build_niah
from cachemend.repair_core.errors import InputError

ROSTER = replace(ROSTERS["embedded"], lengths=(300, 400), cases_per_length=3, control_per_length=1)


@pytest.fixture(scope="module")
def cohort(tiny_chat: PreTrainedTokenizerBase) -> Cohort:
    return build_niah(tiny_chat, ROSTER)


def test_manifest_says_how_the_cohort_came_to_be(cohort: Cohort) -> None:
    manifest = cohort.manifest
    wanted = {"name", "builder_version", "tokenizer", "seeds", "lengths", "n_candidates", "n_cases", "drops"}
    assert wanted | {"score_rule", "decoding", "case_digests", "digest"} <= set(manifest)
    assert manifest["n_cases"] == len(cohort.cases) == 8
    assert manifest["strata"] == {"first-deleted": 6, "second-deleted": 2}
    assert manifest["case_digests"] == [case.digest for case in cohort.cases]
    assert manifest["seeds"] == [case.seed for case in cohort.cases]
    assert manifest["decoding"] == f"greedy-{ROSTER.max_new_tokens}"
    assert json.loads(json.dumps(manifest)) == manifest


def test_a_prefix_has_the_full_cohorts_digest(cohort: Cohort) -> None:
    for limit in (1, 3, 8, 99):
        prefix = cohort.prefix(limit)
        assert prefix.cases == cohort.cases[:limit]
        assert prefix.digest == cohort.digest
        assert prefix.manifest == cohort.manifest
    assert cohort.prefix(None) is cohort
    assert cohort.prefix(3).prefix(2).cases == cohort.cases[:2]
    with pytest.raises(InputError, match="limit 0"):
        cohort.prefix(0)


def test_every_field_is_in_the_case_digest(cohort: Cohort) -> None:
    case = cohort.cases[0]
    changed = {
        "case_id": "other",
        "stratum": "second-deleted",
        "length": case.length + 1,
        "seed": case.seed + 1,
        **{name: f"{getattr(case, name)} " for name in ("context_text", "deleted_text", "query_text")},
        "gold": (*case.gold, "1"),
        **{f.name: (*getattr(case, f.name)[:-1], 1) for f in fields(case) if f.name.endswith("_ids")},
    }
    assert set(changed) == {f.name for f in fields(case)}
    digests = {replace(case, **{name: value}).digest for name, value in changed.items()}
    assert case.digest not in digests
    assert len(digests) == len(changed)


def test_the_cohort_digest_covers_order_rule_and_decoding() -> None:
    base = cohort_digest(["a", "b"], "niah-list-v1", "greedy-32")
    others = {
        cohort_digest(["b", "a"], "niah-list-v1", "greedy-32"),
        cohort_digest(["a"], "niah-list-v1", "greedy-32"),
        cohort_digest(["a", "b"], "niah-first-value-v1", "greedy-32"),
        cohort_digest(["a", "b"], "niah-list-v1", "greedy-64"),
    }
    assert base not in others
    assert len(others) == 4


def test_wording_reaches_the_digest(cohort: Cohort, tiny_chat: PreTrainedTokenizerBase) -> None:
    prompt = replace(ROSTER.prompt, answer_prefill="Of {key}:")
    assert build_niah(tiny_chat, replace(ROSTER, prompt=prompt)).digest != cohort.digest


def test_file_round_trip(cohort: Cohort, tmp_path: Path) -> None:
    path = write_cohort(cohort, tmp_path / "deep" / "cohort.json")
    again = read_cohort(path, NiahCase)
    assert again == cohort
    assert again.digest == cohort.digest
    assert [p.name for p in path.parent.iterdir()] == ["cohort.json"]
    prefix = read_cohort(write_cohort(cohort.prefix(2), path), NiahCase)
    assert (len(prefix.cases), prefix.digest) == (2, cohort.digest)


def test_a_failed_write_leaves_the_old_file(cohort: Cohort, tmp_path: Path) -> None:
    path = write_cohort(cohort, tmp_path / "cohort.json")
    before = path.read_bytes()
    broken = replace(cohort, manifest={**cohort.manifest, "extra": {1, 2}})
    with pytest.raises(TypeError):
        write_cohort(broken, path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["cohort.json"]


def test_a_changed_file_is_refused(cohort: Cohort, tmp_path: Path) -> None:
    path = write_cohort(cohort, tmp_path / "cohort.json")
    content = json.loads(path.read_text())
    content["cases"][1]["gold"] = ["000000"]
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match="not those of its manifest"):
        read_cohort(path, NiahCase)
    content = json.loads(write_cohort(cohort, path).read_text())
    content["manifest"]["score_rule"] += "-changed"
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match="digest in its manifest"):
        read_cohort(path, NiahCase)
    path.write_text("{}")
    with pytest.raises(InputError, match="not a cohort file"):
        read_cohort(path, NiahCase)
    with pytest.raises(InputError, match="does not exist"):
        read_cohort(tmp_path / "none.json", NiahCase)


def test_empty_or_doubled_cohorts_are_refused(cohort: Cohort) -> None:
    with pytest.raises(InputError, match="no cases"):
        Cohort.of("x", [], score_rule="niah-list-v1", decoding="greedy-32")
    with pytest.raises(InputError, match="same case twice"):
        Cohort.of("x", [cohort.cases[0]] * 2, score_rule="niah-list-v1", decoding="greedy-32")


def test_a_malformed_case_is_refused(cohort: Cohort) -> None:
    case = cohort.cases[0]
    for change, message in [
        ({"stratum": "third-deleted"}, "stratum"),
        ({"suffix_ids": ()}, "suffix_ids must not be empty"),
        ({"gold": ()}, "gold must not be empty"),
        ({"length": case.n_tokens - 1}, "tokens exceed"),
    ]:
        with pytest.raises(InputError, match=message):
            replace(case, **change)


SCRIPT = """
import sys
from dataclasses import replace
from transformers import AutoTokenizer
from cachemend.datasets.niah import ROSTERS, build_niah
roster = replace(ROSTERS["embedded"], lengths=(300, 400), cases_per_length=3, control_per_length=1)
cohort = build_niah(AutoTokenizer.from_pretrained(sys.argv[1]), roster)
print(cohort.digest, cohort.manifest["tokenizer"]["fingerprint"])
"""


def test_the_same_cohort_in_every_process(cohort: Cohort, tiny_chat: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    tiny_chat.save_pretrained(tmp_path)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(tmp_path)],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "HF_HUB_OFFLINE": "1"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for hash_seed in ("0", "12345")
    ]
    for process in processes:
        out, _ = process.communicate(timeout=120)
        assert out.split() == [cohort.digest, cohort.manifest["tokenizer"]["fingerprint"]]
        assert process.returncode == 0
