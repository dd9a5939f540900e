"""From pairs to the routing tables: every figure is counted again from the stored decisions."""

import shutil
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from cachemend.calibration.candidate import Candidate
from cachemend.calibration.conditions import candidate_signals, load_lexicon
from cachemend.calibration.errors import CalibrationError
from cachemend.calibration.intervals import SEED
from cachemend.calibration.routing import RiskMap, canonical_order
from cachemend.calibration.verdicts import RESPONSE_VALIDITY, Verdict, candidate_digest
from cachemend.datasets.cohort import Cohort, write_cohort
from cachemend.datasets.pair import Pair
from cachemend.datasets.pair_artifacts import SIDES, probe_auroc
from cachemend.datasets.pairs_seed import build_seed
from cachemend.tasks.encoding import Encoder, load_encoder
from cachemend.tasks.routing.analysing import Measurement, Plan, analyse_routing
from cachemend.tasks.routing.identity import RouteIdentity
from cachemend.tasks.routing.measuring import Instruments, measure
from cachemend.tasks.routing.pool import RoutedPool, other_verdicts
from cachemend.tasks.routing.probing import probe_pairs
from cachemend.tasks.routing.replaying import replay_methods
from cachemend.tasks.routing.scoring import score_pairs
from cachemend.tasks.verifying.recorded import RecordedVerdicts, write_recorded
from cachemend.warehouse import store

PLAN = Plan(n_splits=2, seed=7, own_guards=True)
PAIRS = build_seed().pairs[:150]


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return load_encoder()


def identity(digest: str, verifier: str = "recorded", language_model: str = "none") -> RouteIdentity:
    lexicon = load_lexicon()
    return RouteIdentity(
        cohort_digest=digest,
        pool="seed",
        encoder="all-MiniLM-L6-v2",
        lexicon_digest=lexicon.digest,
        lexicon_version=lexicon.version,
        verifier=verifier,
        verifier_model="a file",
        language_model=language_model,
    )


def cohort(pairs: Sequence[Pair]) -> Cohort:
    return Cohort.of("pairs", pairs, score_rule="label", decoding="none", seed=1)


def recorded(folder: Path, pairs: Sequence[Pair]) -> RecordedVerdicts:
    """A verifier that is right but for every fiftieth pair."""
    right = {True: Verdict.VALID, False: Verdict.INVALID}
    verdicts = [right[bool(pair.label) != (at % 50 == 0)] for at, pair in enumerate(pairs)]
    file = folder / "verdicts.parquet"
    write_recorded(file, [pair.candidate for pair in pairs], verdicts)
    return RecordedVerdicts(file)


@pytest.fixture(scope="module")
def analysed(tmp_path_factory: pytest.TempPathFactory, encoder: Encoder) -> Path:
    results = tmp_path_factory.mktemp("routing")
    made = cohort(PAIRS)
    file = write_cohort(made, results / "pairs.json")
    known = identity(made.digest)
    instruments = Instruments(encode=encoder.encode, verifier=recorded(results, PAIRS))
    first = score_pairs.fn(results, file, known, instruments, run_id="one", store_text=False)
    assert first == (150, 0)
    assert score_pairs.fn(results, file, known, instruments, run_id="two", store_text=False) == (0, 0)
    measured = [Measurement(known, [pair.digest for pair in PAIRS])]
    for run in ("one", "two"):  # the same records give the same rows
        analyse_routing.fn(results, measured, PLAN, run_id=run)
    return results


def rows(results: Path, query: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = store.query(results, query).to_pylist()
    return found


def test_records_hold_what_the_parts_say(analysed: Path, encoder: Encoder) -> None:
    by_digest = {row["case_digest"]: row for row in rows(analysed, "FROM route_records")}
    assert len(by_digest) == len(PAIRS)
    signals = candidate_signals([pair.candidate for pair in PAIRS])
    for at, pair in enumerate(PAIRS):
        row = by_digest[pair.digest]
        a, b = encoder.encode([pair.q_cache, pair.q_probe]).astype(float)
        assert row["similarity"] == pytest.approx(float(a @ b), abs=1e-5)
        assert row["d_match"] == signals.d_match[at]
        assert row["valid"] is bool(pair.label)
        assert tuple(row["fired"]) == signals.fired[at]
        assert row["q_cache"] is row["explanation"] is None
        assert (row["verdict"] is None) == (row["similarity"] < 0.5)


def test_points_are_those_of_the_stored_decisions(analysed: Path) -> None:
    split: dict[tuple[str, str, int], list[dict[str, Any]]] = defaultdict(list)
    for row in rows(analysed, "FROM route_exposures"):
        split[row["method"], row["setting"], row["split"]].append(row)
    points = {(row["method"], row["setting"]): row for row in rows(analysed, "FROM routing_points")}
    assert len(points) == len(split) / PLAN.n_splits
    for (method, setting), point in points.items():
        parts = [split[method, setting, number] for number in range(PLAN.n_splits)]
        valid = [sum(row["accepted"] and row["valid"] for row in part) for part in parts]
        hits = [sum(row["accepted"] for row in part) for part in parts]
        assert point["vchr"] == pytest.approx(np.mean([v / len(part) for v, part in zip(valid, parts, strict=True)]))
        false = [(h - v) / max(h, 1) for h, v in zip(hits, valid, strict=True)]
        assert point["fh"] == pytest.approx(np.mean(false))
        assert (point["accepted"], point["n_valid"]) == (sum(hits), sum(valid))
        assert point["n_without_hits"] == hits.count(0)
        assert point["vchr_low"] <= sum(valid) / point["exposures"] <= point["vchr_high"]
    families = rows(
        analysed, "FROM routing_by_family WHERE NOT diagnostic AND method = 'safecache' AND setting = 'alpha=0 B=0.3'"
    )
    known = points["safecache", "alpha=0 B=0.3"]
    for column in ("family", "source"):
        inside = [row for row in families if row[column]]
        assert sum(row["exposures"] for row in inside) == known["exposures"]
        assert sum(row["n_invalid"] for row in inside) == known["n_invalid"]


def test_no_split_shares_a_cluster_and_no_budget_is_exceeded(analysed: Path) -> None:
    found = rows(analysed, "FROM route_exposures WHERE method = 'safecache'")
    calls: dict[tuple[str, int], list[bool]] = defaultdict(list)
    for row in found:
        calls[row["setting"], row["split"]].append(row["action"] == "verify")
    for (setting, _), verified in calls.items():
        assert sum(verified) <= float(setting.rpartition("B=")[2]) * len(verified)
    orders = rows(analysed, "FROM routing_order")
    assert {row["request_order"] for row in orders} > {"canonical", "reverse"}
    assert {row["over_budget"] for row in orders} == {0}


def test_what_verification_changes_is_counted_from_the_decisions(analysed: Path) -> None:
    frozen = {row["exchanged"]: row for row in rows(analysed, "FROM routing_frozen WHERE NOT diagnostic")}
    point = rows(analysed, "FROM routing_points WHERE method = 'safecache' AND setting = 'alpha=0 B=0.16'")[0]
    kept = frozen["as selected"]
    reused, dropped = frozen["verified candidates reused"], frozen["verified candidates regenerated"]
    assert (kept["accepted"], kept["vchr"], kept["fh"]) == (point["accepted"], point["vchr"], point["fh"])
    sent = rows(
        analysed,
        "FROM route_exposures WHERE method = 'safecache' AND setting = 'alpha=0 B=0.16' AND action = 'verify'",
    )
    assert kept["n_verified"] == len(sent)
    assert reused["accepted"] == kept["accepted"] + sum(not row["accepted"] for row in sent)
    assert dropped["accepted"] == kept["accepted"] - sum(row["accepted"] for row in sent)
    assert reused["n_verified"] == dropped["n_verified"] == 0


def test_the_label_oracle_stays_apart(analysed: Path) -> None:
    assert {row["verifier"] for row in rows(analysed, "FROM routing_points")} == {"recorded"}
    ceiling = rows(analysed, "FROM routing_ceiling")
    assert {row["verifier"] for row in ceiling} == {"label-oracle"}
    direct = {(row["method"], row["setting"]): row for row in ceiling}
    # Where no verifier is asked, it makes no difference who it would be.
    for row in rows(analysed, "FROM routing_points WHERE method IN ('gptcache', 'vcache', 'exact-match')"):
        assert row["vchr"] == direct[row["method"], row["setting"]]["vchr"]


def test_every_table_has_its_rows(analysed: Path) -> None:
    for view in ("routing_tests", "routing_ablation", "routing_map", "routing_certified", "verifier_quality"):
        assert rows(analysed, f"SELECT count(*) AS n FROM {view}")[0]["n"] > 1, view
    tests = rows(analysed, "FROM routing_tests WHERE NOT diagnostic")
    by_reference = defaultdict(list)
    for row in tests:
        by_reference[row["reference"]].append((row["method"], row["setting"]))
        assert row["d_vchr_low"] <= row["d_vchr_high"]
    assert set(by_reference) == {"alpha=0 B=0.16", "alpha=0 B=0.3", "alpha=0.025 B=0.3"}
    for reference, compared in by_reference.items():
        assert {row["family_size"] for row in tests if row["reference"] == reference} == {len(compared)}
        if reference == "alpha=0.025 B=0.3":
            assert len(compared) > 10
        else:
            assert sorted(compared) == [("exact-match", "query"), ("similarity-verifier", reference)]
    for row in tests:
        assert row["p_joint"] == max(row["p_vchr"], row["p_fh"])
        assert row["p_holm"] >= row["p_joint"]
    quality = rows(analysed, "FROM verifier_quality WHERE region LIKE 'all%'")[0]
    asked = rows(analysed, "FROM route_records WHERE verdict IS NOT NULL")
    assert quality["n"] == len(asked)
    assert quality["fa"] == sum(row["verdict"] == "VALID" and not row["valid"] for row in asked)


def test_signals_are_ranked_over_the_held_out_exposures(analysed: Path) -> None:
    """Raw signals and the routed ones, those by a risk map fitted here on the development pairs of the split."""
    known = {row["case_digest"]: row for row in rows(analysed, "FROM route_records")}
    exposures = rows(analysed, "FROM route_exposures WHERE method = 'no-cache'")
    held = {split: {e["case_digest"] for e in exposures if e["split"] == split} for split in range(PLAN.n_splits)}
    pool = RoutedPool.read(analysed, identity(exposures[0]["cohort_digest"]), list(known))
    digests = pool.columns["case_digest"]
    d = {}
    for number, split in enumerate(PLAN.splits(pool)):
        assert set(digests[split.test]) == held[number]
        dev = pool.take(split.dev)
        fitted = RiskMap.fit(dev.signals.d_match, dev.valid)
        for at in split.test:
            row = known[digests[at]]
            risk = fitted.predict(np.array([row["d_match"]]))
            share = float(risk.u_cal[0])
            empty = not row["n_cache"] or not row["n_request"]
            d[number, row["case_digest"]] = 1.0 if empty else (1 - share) * float(risk.rate[0]) + share * row["d_match"]
    invalid = [not e["valid"] for e in exposures]
    found = {row["signal"]: row for row in rows(analysed, "FROM signal_ranking WHERE source = ''")}
    assert set(found) == {"similarity", "d_match", "u_match", "h", "h_rule", "h_ctx", "h_own", "d", "u"}
    values = {
        "similarity": [-known[e["case_digest"]]["similarity"] for e in exposures],
        "u_match": [known[e["case_digest"]]["u_match"] for e in exposures],
        "d": [d[e["split"], e["case_digest"]] for e in exposures],
    }
    for name, signal in values.items():
        assert found[name]["n"] == len(exposures)
        assert found[name]["auroc"] == pytest.approx(roc_auc_score(invalid, signal)), name


def test_what_vcache_learns_from_and_who_abstains_is_counted(analysed: Path) -> None:
    points = {(row["method"], row["setting"]): row for row in rows(analysed, "FROM routing_points")}
    learnt = points.pop(("vcache", "online"))
    sent = rows(analysed, "FROM route_exposures WHERE method = 'vcache' AND setting = 'online'")
    entry = {row["case_digest"]: row["entry_digest"] for row in rows(analysed, "FROM route_records")}
    offered = {(row["split"], entry[row["case_digest"]]) for row in sent}
    asked = Counter((row["split"], entry[row["case_digest"]]) for row in sent if row["action"] == "verify")
    assert learnt["observations_mean"] == pytest.approx(asked.total() / len(offered))
    assert learnt["observations_max"] == max(asked.values())
    assert learnt["observations_ready"] == sum(asked[each] >= 4 for each in offered) / len(offered)
    assert {row["observations_mean"] for row in points.values()} == {None}


def test_similarity_and_verifier_abstains_where_nothing_is_feasible(analysed: Path) -> None:
    """A verifier that accepts everything leaves no pair of thresholds without an error among identical requests."""
    known = rows(analysed, "FROM route_records")
    pool = RoutedPool.read(analysed, identity(known[0]["cohort_digest"]), [row["case_digest"] for row in known])
    same = {**pool.columns, "similarity": np.ones(len(pool)), "same_query": np.ones(len(pool), dtype=bool)}
    blind = replace(pool, columns=same).with_verdicts(np.ones(len(pool), dtype=bool))
    made = {(each.method, each.setting): each for each in replay_methods(blind, PLAN.splits(pool))}
    for setting in ("alpha=0 B=0.16", "alpha=0 B=0.3", "alpha=0.025 B=0.3"):
        series = made["similarity-verifier", setting]
        assert series.abstained == [0, 1]
        assert not any(served.accepted.any() for served in series.served)
    assert made["no-cache", "reference"].abstained == []


def test_order_and_draws_do_not_follow_from_labels(analysed: Path) -> None:
    known = rows(analysed, "FROM route_records")
    made = identity(known[0]["cohort_digest"])
    pool = RoutedPool.read(analysed, made, [row["case_digest"] for row in known])
    by_digest = {pair.digest: pair for pair in PAIRS}
    turned = {replace(pair, label=1 - pair.label).digest for pair in PAIRS}
    assert not turned & set(by_digest)
    for digest, key in zip(pool.columns["case_digest"], pool.keys, strict=True):
        pair = by_digest[digest]
        assert key == candidate_digest(pair.candidate) == candidate_digest(replace(pair, label=0).candidate)
    assert pool.order().tolist() == canonical_order(pool.keys.tolist(), SEED).tolist()


def test_plans_side_by_side(tmp_path: Path, analysed: Path) -> None:
    shutil.copytree(analysed, tmp_path / "results")
    results = tmp_path / "results"
    known = rows(results, "FROM route_records")
    measured = [Measurement(identity(known[0]["cohort_digest"]), [pair.digest for pair in PAIRS])]
    analyse_routing.fn(results, measured, replace(PLAN, own_guards=False), run_id="other")
    found = rows(results, "SELECT split_plan, own_guards, count(*) AS n FROM routing_points GROUP BY ALL ORDER BY ALL")
    assert [(row["split_plan"], row["own_guards"]) for row in found] == [(PLAN.text, False), (PLAN.text, True)]
    assert len({row["n"] for row in found}) == 1


def test_one_side_alone_is_probed(tmp_path: Path) -> None:
    made = cohort(PAIRS)
    file = write_cohort(made, tmp_path / "pairs.json")
    probe_pairs.fn(tmp_path, file, identity(made.digest), run_id="one")
    found = {(row["source"], row["side"]): row for row in rows(tmp_path, "FROM routing_probes")}
    assert set(found) == {(source, side) for source in {pair.source for pair in PAIRS} for side in SIDES}
    for (source, side), row in found.items():
        own = [pair for pair in PAIRS if pair.source == source]
        assert (row["n"], row["auroc"]) == (len(own), probe_auroc(own, side))
        assert row["within_target"] == (None if row["auroc"] is None else row["auroc"] <= 0.6)


def test_a_verdict_that_failed_is_asked_for_again(tmp_path: Path, encoder: Encoder) -> None:
    class Broken:
        question = RESPONSE_VALIDITY
        fingerprint = decoding = "broken"

        def verdicts(self, candidates: Sequence[Candidate]) -> list[Verdict]:
            return [Verdict.FAILED] * len(candidates)

    made = cohort(PAIRS[:30])
    file = write_cohort(made, tmp_path / "pairs.json")
    known = identity(made.digest)
    broken = Instruments(encode=encoder.encode, verifier=Broken())
    written = score_pairs.fn(tmp_path, file, known, broken, run_id="one", store_text=False)
    failed = rows(tmp_path, "FROM route_records WHERE outcome <> 'ok'")
    assert written == (30, len(failed))
    assert failed
    assert {row["error"] for row in failed} == {"the verifier gave no answer"}
    pool = RoutedPool.read(tmp_path, known, [pair.digest for pair in PAIRS[:30]])
    assert len(pool) == 30
    assert not pool.verified.any()
    working = Instruments(encode=encoder.encode, verifier=recorded(tmp_path, PAIRS[:30]))
    again = score_pairs.fn(tmp_path, file, known, working, run_id="two", store_text=False)
    assert again == (len(failed), 0)
    assert not rows(tmp_path, "FROM route_records WHERE outcome <> 'ok'")


def test_texts_and_explanations_are_stored_on_demand(tmp_path: Path, encoder: Encoder) -> None:
    made = cohort(PAIRS[:3])
    file = write_cohort(made, tmp_path / "pairs.json")
    score_pairs.fn(
        tmp_path, file, identity(made.digest), Instruments(encode=encoder.encode), run_id="one", store_text=True
    )
    by_digest = {pair.digest: pair for pair in PAIRS[:3]}
    for row in rows(tmp_path, "FROM route_records"):
        assert row["r_cache"] == by_digest[row["case_digest"]].r_cache
        assert '"matching"' in row["explanation"]


def test_texts_are_added_to_records_without_them(tmp_path: Path, encoder: Encoder) -> None:
    made = cohort(PAIRS[:70])
    file = write_cohort(made, tmp_path / "pairs.json")

    def score(run: str, *, store_text: bool) -> tuple[int, int]:
        instruments = Instruments(encode=encoder.encode)
        return score_pairs.fn(tmp_path, file, identity(made.digest), instruments, run_id=run, store_text=store_text)

    assert score("one", store_text=False) == (70, 0)
    before = {row["case_digest"]: row for row in rows(tmp_path, "FROM route_records")}
    assert score("two", store_text=True) == (0, 0)
    by_digest = {pair.digest: pair for pair in PAIRS}
    new = ("q_cache", "r_cache", "context_cache", "q_probe", "context_probe", "explanation", "run_id", "recorded_at")
    for row in rows(tmp_path, "FROM route_records"):
        assert row["context_probe"] == by_digest[row["case_digest"]].context_probe
        assert row["explanation"]
        kept = before[row["case_digest"]]
        assert {k: v for k, v in row.items() if k not in new} == {k: v for k, v in kept.items() if k not in new}
    parts = sorted((tmp_path / "route_records").iterdir())
    assert score("three", store_text=True) == score("four", store_text=False) == (0, 0)
    assert sorted((tmp_path / "route_records").iterdir()) == parts


def test_another_verifier_of_the_folder_is_replayed(tmp_path: Path, encoder: Encoder) -> None:
    pairs = PAIRS[:90]
    made = cohort(pairs)
    file = write_cohort(made, tmp_path / "pairs.json")
    first, second = identity(made.digest, "one"), identity(made.digest, "two")
    for known, says in ((first, Verdict.VALID), (second, Verdict.INVALID)):
        (tmp_path / known.verifier).mkdir()
        verdicts = tmp_path / known.verifier / "verdicts.parquet"
        write_recorded(verdicts, [pair.candidate for pair in pairs], [says] * len(pairs))
        instruments = Instruments(encode=encoder.encode, verifier=RecordedVerdicts(verdicts))
        score_pairs.fn(tmp_path, file, known, instruments, run_id=known.verifier, store_text=False)
    pool = RoutedPool.read(tmp_path, second, [pair.digest for pair in pairs])
    others = other_verdicts(tmp_path, pool)
    assert list(others) == ["a file (one)"]
    assert (others["a file (one)"] == (pool.columns["similarity"] >= 0.5)).all()
    assert not pool.verified.any()


@pytest.mark.parametrize("models", [("none", "a"), ("a", "none"), ("a", "b")])
def test_each_language_model_has_its_own_records(models: tuple[str, str], tmp_path: Path, encoder: Encoder) -> None:
    said = {"none": None, "a": -1.0, "b": -2.0}
    made = cohort(PAIRS[:30])
    file = write_cohort(made, tmp_path / "pairs.json")
    for model in models:
        likelihoods = None if said[model] is None else partial(_all_the_same, said[model])
        instruments = Instruments(encode=encoder.encode, likelihoods=likelihoods)
        known = identity(made.digest, language_model=model)
        assert score_pairs.fn(tmp_path, file, known, instruments, run_id=model, store_text=False) == (30, 0)
        assert score_pairs.fn(tmp_path, file, known, instruments, run_id=model, store_text=False) == (0, 0)
    for model in models:
        pool = RoutedPool.read(tmp_path, identity(made.digest, language_model=model), [p.digest for p in PAIRS[:30]])
        found = pool.columns["likelihood"]
        assert set(found[~np.isnan(found)]) == {said[model]} - {None}
        assert len(pool) == 30


def _all_the_same(value: float, candidates: Sequence[Candidate]) -> list[float]:
    return [value] * len(candidates)


def test_pairs_of_one_label_are_refused(tmp_path: Path, encoder: Encoder) -> None:
    pairs = [replace(pair, label=1) for pair in PAIRS[:20]]
    made = cohort(pairs)
    file = write_cohort(made, tmp_path / "pairs.json")
    known = identity(made.digest)
    score_pairs.fn(tmp_path, file, known, Instruments(encode=encoder.encode), run_id="one", store_text=False)
    with pytest.raises(CalibrationError, match="20 valid and 0 invalid"):
        analyse_routing.fn(tmp_path, [Measurement(known, [pair.digest for pair in pairs])], PLAN, run_id="one")


def test_a_model_is_asked_only_what_some_method_would_ask(encoder: Encoder) -> None:
    asked: list[Candidate] = []

    class Counting:
        question = RESPONSE_VALIDITY
        fingerprint = decoding = "counting"

        def verdicts(self, candidates: Sequence[Candidate]) -> list[Verdict]:
            asked.extend(candidates)
            return [Verdict.VALID] * len(candidates)

    far = Candidate(
        q_cache="What is the capital of Peru?", r_cache="Lima.", context_cache="", q_probe="x", context_probe=""
    )
    near = Candidate(
        q_cache="What is the capital of Peru?",
        r_cache="Lima.",
        context_cache="",
        q_probe="What is the capital of Peru?",
        context_probe="",
    )
    measured = measure([far, near], Instruments(encode=encoder.encode, verifier=Counting()))
    assert asked == [near]
    assert [row["verdict"] for row in measured] == [None, "VALID"]
    assert measured[1]["same_query"] is True
