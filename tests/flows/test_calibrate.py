"""`cachemend calibrate`: real logs, the real encoder; what it prints and writes against plain recounts."""

import csv
import json
import re
from collections.abc import Callable, Sequence
from itertools import product
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from cachemend.calibration.errors import CalibrationError
from cachemend.calibration.routing import REGENERATE_ALL, RoutingScores, VerifierBudget, load_policy
from cachemend.calibration.routing.service import Router
from cachemend.calibration.verdicts import Verdict
from cachemend.datasets.pair_log import read_log
from cachemend.flows.calibrate_choosing import certify, policies
from cachemend.flows.calibrate_parts import Part
from cachemend.tasks.encoding import load_encoder
from cachemend.tasks.verifying.recorded import write_recorded

from support.cache_log import ROWS, write_log

Row = dict[str, Any]


class Remembering(NamedTuple):
    """The real encoder; a text that came before is not encoded again."""

    identity: str
    encode: Callable[[Sequence[str]], NDArray[np.float32]]


@pytest.fixture(scope="module")
def encoder() -> Remembering:
    real, known = load_encoder(), {}

    def encode(texts: Sequence[str]) -> NDArray[np.float32]:
        new = [text for text in dict.fromkeys(texts) if text not in known]
        known.update(zip(new, real.encode(new), strict=True))
        return np.stack([known[text] for text in texts])

    return Remembering(real.identity, encode)


@pytest.fixture(autouse=True)
def _one_encoder(encoder: Remembering, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cachemend.flows.calibrate.load_encoder", lambda name: encoder)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write_log(tmp_path / "log.jsonl")


def scores_of(folder: Path) -> list[Row]:
    rows: list[Row] = pq.read_table(folder / "scores.parquet").to_pylist()
    return rows


def returned(row: Row, tau: float, delta: float, upsilon: float) -> bool:
    return not row["h"] and row["similarity"] >= tau and row["d"] <= delta and row["u"] <= upsilon


def best(rows: Sequence[Row], alpha: float) -> tuple[int, tuple[float, float, float]]:
    """Most valid hits over all direct rules, and the first rule that has them, the strictest first."""
    found = (-1, (inf, 0.0, 0.0))
    for tau, delta, upsilon in product((0.98, 0.95, 0.9, 0.85, 0.8, 0.7), (0.02, 0.05, 0.1, 0.2), (0.3, 0.5, 0.7, 0.9)):
        labels = [row["label"] for row in rows if returned(row, tau, delta, upsilon)]
        if labels.count(0) <= alpha * max(len(labels), 1) and labels.count(1) > found[0]:
            found = labels.count(1), (tau, delta, upsilon)
    return found


def test_a_labelled_log_becomes_a_policy(command: Callable, log: Path, tmp_path: Path) -> None:
    ended = command("calibrate", log)
    assert ended.code == 0, ended.err
    assert "160 rows: 160 labelled, 0 without label" in ended.out
    assert "warning" not in ended.err
    folder = tmp_path / "log-calibration"
    assert sorted(path.name for path in folder.iterdir()) == ["policy.json", "scores.parquet"]
    rows, policy = scores_of(folder), load_policy(folder / "policy.json")
    assert list(rows[0]) == ["pair_id", "part", "label", "similarity", "d", "u", "h", "action"]
    assert [row["label"] for row in rows] == [row["label"] for row in ROWS]

    cal = [row for row in rows if row["part"] == "calibration"]
    hits, rule = best(cal, 0.025)
    assert hits >= 10
    assert policy.thresholds[:3] == rule
    assert policy.thresholds.tau_v == inf
    assert (policy.alpha, policy.budget, policy.encoder) == (0.025, 0.0, "all-MiniLM-L6-v2 c020906423b2931f")
    assert (policy.calibration.n, policy.calibration.valid, policy.calibration.calls) == (len(cal), hits, 0)
    dev = [row["label"] for row in rows if row["part"] == "development"]
    blocks = policy.risk_map.blocks
    assert (sum(block.n for block in blocks), sum(block.invalid for block in blocks)) == (len(dev), dev.count(0))
    for row in rows:
        assert row["action"] == ("reuse" if returned(row, *rule) else "regenerate")


def test_the_table_counts_the_test_part(command: Callable, log: Path, tmp_path: Path) -> None:
    out = command("calibrate", log, "--alpha", 0.3, "--out", tmp_path / "to").out
    rows = scores_of(tmp_path / "to")
    cal, test = ([row for row in rows if row["part"] == part] for part in ("calibration", "test"))
    labels = [row["label"] for row in test if row["action"] == "reuse"]
    shown = re.search(r"│ router +│ +(\S+) % │ +\S+ %? ?│ +(\d+) of (\d+) │", out)
    assert shown is not None, out
    assert float(shown[1]) == pytest.approx(100 * labels.count(1) / len(test), abs=0.051)
    assert (int(shown[2]), int(shown[3])) == (labels.count(0), len(labels))

    def counts(rows: Sequence[Row], tau: float) -> tuple[int, int]:
        found = [row["label"] for row in rows if row["similarity"] >= tau]
        return found.count(1), found.count(0)

    feasible = [
        (counts(cal, tau)[0], -counts(cal, tau)[1], tau)
        for tau in (step / 100 for step in range(50, 101))
        if counts(cal, tau)[1] <= 0.3 * max(sum(counts(cal, tau)), 1)
    ]
    most, _, tau = max(feasible)
    assert most > 0
    valid, invalid = counts(test, tau)
    assert f"similarity >= {tau:g} " in out
    assert f"{invalid} of {valid + invalid}" in out
    gain = labels.count(1) - valid, labels.count(0) - invalid
    assert f"returns {gain[0]:+d} valid and {gain[1]:+d} invalid responses on these {len(test)} pairs" in out


def test_parts_share_no_cluster_and_follow_the_seed(command: Callable, log: Path, tmp_path: Path) -> None:
    for name, seed in (("a", 7), ("b", 7), ("c", 8)):
        assert command("calibrate", log, "--seed", seed, "--out", tmp_path / name).code == 0
    a, b, c = ([(tmp_path / name / file).read_bytes() for file in ("policy.json", "scores.parquet")] for name in "abc")
    assert a == b
    assert a[1] != c[1]
    part_of: dict[str, set[str]] = {}
    parts = {row["pair_id"]: row["part"] for row in scores_of(tmp_path / "a")}
    for pair in read_log(log).pairs:
        part_of.setdefault(pair.q_cache, set()).add(parts[pair.pair_id])
    assert {len(found) for found in part_of.values()} == {1}
    clusters = {name: sum(found == {name} for found in part_of.values()) for name in set(parts.values())}
    assert clusters == {"development": 72, "calibration": 24, "test": 24}


def test_nothing_that_is_written_or_printed_holds_a_text(command: Callable, log: Path, tmp_path: Path) -> None:
    ended = command("calibrate", log)
    content = ended.out + ended.err
    content += "".join(str(row) for row in scores_of(tmp_path / "log-calibration"))
    content += (tmp_path / "log-calibration" / "policy.json").read_text()
    for word in ("#W10", "lamp", "refunded", "paid"):
        assert word not in content


def test_a_service_decides_as_the_scores_say(
    command: Callable, log: Path, tmp_path: Path, encoder: Remembering
) -> None:
    out = command("calibrate", log, "--alpha", 0.2, "--out", tmp_path / "to").out
    first, second = out.splitlines()[-2:]
    names: dict[str, Any] = {"load_policy": load_policy, "Router": Router, "Path": Path, "encode": encoder.encode}
    exec(f"{first.strip()}\n{second.strip()}", names)
    assert routed(names["router"], log) == {row["pair_id"]: row["action"] for row in scores_of(tmp_path / "to")}
    assert "reuse" in {row["action"] for row in scores_of(tmp_path / "to")}


def routed(router: Router, log: Path) -> dict[str, str]:
    actions = {}
    for pair in read_log(log).pairs:
        entry = router.prepare(pair.q_cache, pair.r_cache, pair.context_cache)
        actions[pair.pair_id] = router.route(entry, pair.q_probe, pair.context_probe).action
    return actions


def record(log: Path, path: Path, answer: Callable[[int, int], Verdict], *, leave_out: int = 0) -> Path:
    """Record `answer(row, label)` for the pairs of a log but the first `leave_out`."""
    pairs = read_log(log).pairs
    verdicts = [answer(row, pair.label) for row, pair in enumerate(pairs)]
    write_recorded(path, [pair.candidate for pair in pairs][leave_out:], verdicts[leave_out:])
    return path


def test_recorded_verdicts_and_a_budget(command: Callable, log: Path, tmp_path: Path, encoder: Remembering) -> None:
    # One label in three is turned round, so that nothing passes alpha 0 unverified.
    turned = [{**row, "label": row["label"] ^ (number % 3 == 0)} for number, row in enumerate(ROWS)]
    write_log(log, rows=turned)
    verdicts = record(log, tmp_path / "v.parquet", lambda row, label: Verdict.VALID if label else Verdict.INVALID)
    options = ("--alpha", 0, "--verifier-budget", 0.3, "--verdicts", verdicts, "--out", tmp_path / "to")
    ended = command("calibrate", log, *options)
    assert ended.code == 0, ended.err
    policy, rows = load_policy(tmp_path / "to" / "policy.json"), scores_of(tmp_path / "to")
    assert policy.budget == 0.3
    assert policy.thresholds.tau_v < inf
    assert 0 < policy.calibration.calls <= 0.3 * policy.calibration.n
    assert policy.calibration.invalid == 0
    # In the file, `verify` is what would be asked if the budget lasted.
    router = Router(policy, encoder.encode, encoder=encoder.identity, verifier_budget=VerifierBudget(1.0))
    assert routed(router, log) == {row["pair_id"]: row["action"] for row in rows}
    wished = [row["action"] for row in rows if row["part"] == "calibration"].count("verify")
    assert policy.calibration.demand == wished
    methods = [line.split("│")[1].strip() for line in ended.out.splitlines() if line.startswith("│ ")]
    assert methods[0] == "router"
    assert methods[1] == "similarity, at no threshold"
    assert methods[2].startswith("similarity, at no threshold, verified >= ")


def test_a_pair_that_may_be_verified_needs_an_answer(command: Callable, log: Path, tmp_path: Path) -> None:
    options = ("--verifier-budget", 0.3, "--verdicts", tmp_path / "v.parquet", "--out", tmp_path / "to")
    record(log, tmp_path / "v.parquet", lambda row, label: Verdict.VALID, leave_out=7)
    ended = command("calibrate", log, *options)
    assert ended.code == 2
    named = ", ".join(f"row-{row:06d}" for row in range(1, 6))
    assert f"7 pairs that may be verified have no verdict: {named} and 2 more" in ended.err.splitlines()[-1]
    record(log, tmp_path / "v.parquet", lambda row, label: Verdict.FAILED if row == 3 else Verdict.VALID)
    ended = command("calibrate", log, *options)
    assert ended.code == 2
    assert "1 pairs that may be verified have the verdict FAILED" in ended.err.splitlines()[-1]
    assert not (tmp_path / "to").exists()


def test_certified_or_an_abstention_that_says_why(command: Callable, log: Path, tmp_path: Path) -> None:
    ended = command("calibrate", log, "--alpha", 0.2, "--certify", "--out", tmp_path / "yes")
    assert ended.code == 0, ended.err
    assert "24 calibration clusters can certify a risk of 20 % at best" in ended.out
    policy = load_policy(tmp_path / "yes" / "policy.json")
    assert policy.thresholds.tau_r < inf
    how = "learn-then-test at a risk of 20 % with confidence 95 %, averaged over clusters, not over requests"
    assert policy.selected_by == f"{how}: a popular entry counts once"
    assert f"chosen by {policy.selected_by}: " in ended.out
    assert policy.calibration.invalid == 0
    ended = command("calibrate", log, "--certify", "--out", tmp_path / "no")
    assert ended.code == 0, ended.err
    (line,) = [line for line in ended.out.splitlines() if "everything is regenerated" in line]
    assert "no policy is certified at alpha = 2.5 %" in line
    policy = load_policy(tmp_path / "no" / "policy.json")
    assert policy.thresholds == REGENERATE_ALL
    assert "abstained" in policy.selected_by
    assert {row["action"] for row in scores_of(tmp_path / "no")} == {"regenerate"}


def even_part(n: int, name: str) -> Part:
    """Pairs of a cluster each: the even ones alike and valid, the others less alike and every second one invalid."""
    rows = np.arange(n)
    valid = rows % 4 != 3
    similarity = np.where(rows % 2 == 0, 0.99, 0.75)
    low, never = np.full(n, 0.01), np.zeros(n, dtype=bool)
    scores = RoutingScores(similarity, d=low, u=low, h=never, u_cal=low, empty=never)
    ids = np.array([f"{name}{row}" for row in rows])
    return Part(ids, ids, valid, valid, scores, rows)


def test_policies_are_tested_from_the_safest_on() -> None:
    dev, cal = even_part(400, "dev"), even_part(160, "cal")
    found = certify(dev, cal, alpha=0.1, budget=0.0, grid=policies(0.0), seed=1)
    assert found.thresholds.tau_r > 0.75  # a sequence that began with the most permissive would end at once
    assert (found.counts.valid, found.counts.invalid, found.counts.feasible) == (80, 0, 1)
    assert found.counts.policies == 2
    found = certify(dev, cal, alpha=0.1, budget=0.5, grid=policies(0.5), seed=1)
    assert (found.counts.valid, found.counts.invalid, found.counts.calls) == (120, 0, 80)
    assert found.thresholds.tau_r > 0.75 >= found.thresholds.tau_v


def test_an_unlabelled_log_becomes_a_sheet_and_the_sheet_a_policy(command: Callable, log: Path, tmp_path: Path) -> None:
    raw = write_log(tmp_path / "raw.jsonl", labels=False)
    ended = command("calibrate", raw)
    assert ended.code == 0, ended.err
    folder = tmp_path / "raw-calibration"
    sheet = folder / "label-sheet.csv"
    assert sorted(path.name for path in folder.iterdir()) == ["label-sheet.csv", "scores.parquet"]
    assert list(scores_of(folder)[0]) == ["pair_id", "similarity", "d_match", "u_match", "h_rule", "h_ctx", "h_own"]
    assert len(scores_of(folder)) == len(ROWS)
    told = ended.out.splitlines()[-1]
    assert told.endswith(f"cachemend calibrate {raw} --labels {sheet}")

    again = command("calibrate", raw)
    assert again.code == 2
    assert f"{sheet} is there already" in again.err

    truth = {(row["q_probe"], row["context_probe"]): str(row["label"]) for row in ROWS}
    with sheet.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows[:-10]:
        row["verdict"] = truth[row["q_probe"], row["context_probe"].replace("\r\n", "\n")]
    with sheet.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    ended = command("calibrate", raw, "--labels", sheet)
    assert ended.code == 0, ended.err
    assert f"labels: {len(ROWS) - 10} more from {sheet}" in ended.out
    assert load_policy(folder / "policy.json").thresholds.tau_r < inf
    assert sheet.exists()
    assert "leave --labels out" in command("calibrate", log, "--labels", sheet).err


def test_a_large_cluster_is_named(command: Callable, tmp_path: Path) -> None:
    rows = [{**row, "cluster": "big" if number < 6 else f"c{number // 2}"} for number, row in enumerate(ROWS)]
    ended = command("calibrate", write_log(tmp_path / "log.jsonl", rows=rows))
    assert ended.code == 0
    assert "warning: the largest cluster, 'big', is 3.8 % of 160 rows, above 2 %" in ended.err


def test_an_error_of_the_calibration_part_is_one_line(
    command: Callable, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> None:
        raise CalibrationError("what it is\nand what would be right")

    monkeypatch.setattr("cachemend.flows.calibrate.read_log", refuse)
    assert command("calibrate", log) == (2, "", "error: what it is and what would be right\n")


def test_another_value_error_is_not_hidden(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cachemend.flows.cli import main

    monkeypatch.setattr("cachemend.flows.calibrate.read_log", lambda path: int("x"))
    with pytest.raises(ValueError, match="invalid literal"):
        main(["calibrate", str(log)])


LOGS: dict[str, tuple[list[Row], str]] = {
    "label 2": ([*ROWS, {**ROWS[0], "label": 2}], "label 2 is not 0"),
    "a column": ([{"q_cached" if key == "q_cache" else key: row[key] for key in row} for row in ROWS], "'q_cached'"),
    "an id twice": ([{**row, "pair_id": "same"} for row in ROWS], "'same' is there 160 times"),
    "one label": ([{**row, "label": 1} for row in ROWS], "all labels are 1"),
    "no rows": ([], "log.jsonl"),
    "two clusters": ([{**row, "cluster": f"c{number // 2 % 2}"} for number, row in enumerate(ROWS)], "at least 3"),
    "one kind": ([{**row, "label": int(row is not ROWS[1])} for row in ROWS], "both kinds"),
}


@pytest.mark.parametrize("name", LOGS)
def test_a_log_that_cannot_be_used(name: str, command: Callable, tmp_path: Path) -> None:
    rows, expected = LOGS[name]
    write_log(tmp_path / "log.jsonl", rows=rows)
    check_refused(command("calibrate", tmp_path / "log.jsonl"), expected)
    assert [path.name for path in tmp_path.iterdir()] == ["log.jsonl"]


OPTIONS = {
    "no file": (("FOLDER/none.jsonl",), "FOLDER/none.jsonl is not there"),
    "a suffix": (("FOLDER/log.txt",), "suffix '.txt'"),
    "no UTF-8": (("FOLDER/latin.csv",), "latin.csv"),
    "alpha": (("LOG", "--alpha", "1"), "--alpha 1 is not from 0 to below 1"),
    "no alpha": (("LOG", "--alpha", "nan"), "--alpha nan"),
    "negative": (("LOG", "--alpha", "-0.1"), "--alpha -0.1"),
    "budget": (("LOG", "--verifier-budget", "1.5"), "--verifier-budget 1.5"),
    "small budget": (("LOG", "--verifier-budget", "0.005"), "no call in 100 requests"),
    "no verdicts": (("LOG", "--verifier-budget", "0.3"), "needs --verdicts"),
    "no budget": (("LOG", "--verdicts", "v.parquet"), "needs --verifier-budget"),
    "verdict file": (("LOG", "--verifier-budget", "0.3", "--verdicts", "FOLDER/log.txt"), "not a readable Parquet"),
    "folder": (("LOG", "--out", "FOLDER/log.txt/to"), "--out FOLDER/log.txt/to: cannot write"),
    "sheet": (("RAW", "--labels", "FOLDER/none.csv"), "FOLDER/none.csv is not there"),
    "option": (("LOG", "--alhpa", "0.1"), "--alhpa"),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_that_cannot_be_met(name: str, command: Callable, log: Path, tmp_path: Path) -> None:
    write_log(tmp_path / "raw.jsonl", labels=False)
    (tmp_path / "log.txt").write_text("a text")
    header = ",".join(key for key in ROWS[0])
    (tmp_path / "latin.csv").write_bytes(f"{header}\ncaf\xe9,b,c,d,e,1\nf,g,h,i,j,0\n".encode("latin-1"))
    before = sorted(path.name for path in tmp_path.iterdir())
    arguments, expected = OPTIONS[name]
    put = {"FOLDER": str(tmp_path), "LOG": str(log), "RAW": str(tmp_path / "raw.jsonl")}
    for mark, text in put.items():
        arguments = tuple(argument.replace(mark, text) for argument in arguments)
        expected = expected.replace(mark, text)
    check_refused(command("calibrate", *arguments), expected)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def check_refused(ended: Any, expected: str) -> None:
    assert ended.code == 2, ended.err
    assert ended.out == ""
    (line,) = ended.err.splitlines()
    assert line.startswith("error: ")
    assert expected in line


def test_an_encoder_that_is_not_there(command: Callable, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cachemend.flows.calibrate.load_encoder", load_encoder)
    check_refused(command("calibrate", log, "--encoder", log.parent / "none"), "cannot be loaded")


def test_the_policy_is_plain_json(command: Callable, log: Path, tmp_path: Path) -> None:
    command("calibrate", log)
    content = json.loads((tmp_path / "log-calibration" / "policy.json").read_text())
    assert content["thresholds"]["tau_v"] is None
