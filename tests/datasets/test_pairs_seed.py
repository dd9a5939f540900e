"""The seed set: its counts, its kinds, and that no text alone tells a label."""

import hashlib
import re
from collections import Counter, defaultdict

import numpy as np
import pytest
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold, cross_val_predict

from cachemend.datasets.pair import FAMILIES, Pair
from cachemend.datasets.pairs_seed import SCENARIOS, build_seed
from cachemend.datasets.seed_kinds import Change, Wording
from cachemend.datasets.seed_scenario import Scenario, Side, Turn, changed

PAIRS = build_seed().pairs
POOL_SIZE = 3225
DIGEST = "180ae4c711f3644b6255a66a1eeb4270e4a08e093c23742f6c31ff6b184fb404"


def texts(pair: Pair) -> tuple[str, str, str, str, str]:
    return (pair.q_cache, pair.r_cache, pair.context_cache, pair.q_probe, pair.context_probe)


def test_every_family_has_thirty_pairs_of_each_label() -> None:
    assert Counter((pair.family, pair.label) for pair in PAIRS) == dict.fromkeys(
        [(family, label) for family in FAMILIES for label in (0, 1)], 30
    )
    assert {(pair.pool, pair.source) for pair in PAIRS} == {("seed", "seed")}
    assert build_seed().rejects == {}


def test_texts_are_the_ones_that_were_committed() -> None:
    digests = sorted(pair.digest for pair in PAIRS)
    assert hashlib.sha256("\n".join(digests).encode("ascii")).hexdigest() == DIGEST


def test_the_seed_changes_the_order_and_nothing_else() -> None:
    assert build_seed().pairs == PAIRS
    other = build_seed(seed=1).pairs
    assert other != PAIRS
    assert set(other) == set(PAIRS)


def test_ids_and_texts_are_unique() -> None:
    assert len({pair.pair_id for pair in PAIRS}) == len({texts(pair) for pair in PAIRS}) == 360
    answers = {(pair.cluster, pair.r_cache) for pair in PAIRS}
    assert len({answer for _, answer in answers}) == len(answers)


def test_clusters_are_small_and_of_one_family() -> None:
    sizes = Counter(pair.cluster for pair in PAIRS)
    assert set(sizes.values()) <= {6, 8, 12}
    assert max(sizes.values()) <= 0.02 * POOL_SIZE
    assert len(sizes) == len({(pair.cluster, pair.family) for pair in PAIRS}) == 46


def test_rules_name_a_kind_that_fits_the_label() -> None:
    kinds = {0: Counter[str](), 1: Counter[str]()}
    for pair in PAIRS:
        kinds[pair.label][pair.rule] += 1
    assert set(kinds[0]) == set(Change)
    assert set(kinds[1]) == set(Wording)


@pytest.mark.parametrize(
    "kind",
    [
        "negated-request",
        "swapped-roles",
        "changed-number",
        "changed-subject",
        "changed-referent",
        "changed-persona",
        "changed-format",
        "other-user-tenant-or-key",
        "tools-forbidden",
        "cached-error",
        "newer-document",
        "later-time-window",
        "boilerplate-around-another-request",
        "empty-request",
        "after-tool-result",
        "truncated-stub",
        "other-attachment",
        "other-embedding-model",
        "missing-history",
        "write-refused-before",
        "redaction-required",
        "shorter",
        "reworded",
        "irrelevant-context",
        "identical-repeat",
    ],
)
def test_known_traps_are_covered_several_times(kind: str) -> None:
    assert sum(pair.rule == kind for pair in PAIRS) >= 3


def test_wordings_are_what_their_rules_say() -> None:
    for pair in PAIRS:
        same = (pair.q_cache == pair.q_probe, pair.context_cache == pair.context_probe)
        if pair.rule == "identical-repeat":
            assert same == (True, True)
        elif pair.rule == "irrelevant-context":
            assert same == (True, False)
        elif pair.rule == "reworded":
            assert same == (False, True)
        elif pair.rule == "reworded-in-irrelevant-context":
            assert same == (False, False)
        elif pair.rule == "shorter":
            assert len(pair.q_probe) < len(pair.q_cache)
        elif pair.rule == "other-blanks":
            assert pair.q_probe.split() == pair.q_cache.split()


def test_every_request_and_every_answer_stands_with_both_labels_equally_often() -> None:
    requests: defaultdict[tuple[str, str], Counter[int]] = defaultdict(Counter)
    answers: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for pair in PAIRS:
        requests[pair.q_probe, pair.context_probe][pair.label] += 1
        answers[pair.r_cache][pair.label] += 1
    assert all(count == {0: 1, 1: 1} for count in requests.values())
    assert all(count[0] == count[1] for count in answers.values())


@pytest.mark.parametrize("side", ["request", "response", "cache"])
def test_one_side_alone_does_not_tell_the_label(side: str) -> None:
    view = {
        "request": lambda pair: f"{pair.q_probe}\n{pair.context_probe}",
        "response": lambda pair: pair.r_cache,
        "cache": lambda pair: f"{pair.q_cache}\n{pair.r_cache}\n{pair.context_cache}",
    }[side]
    assert 0.45 <= probe_auroc([view(pair) for pair in PAIRS]) <= 0.55


def test_the_probe_would_notice_a_word_that_gives_the_label_away() -> None:
    marked = [f"{pair.q_probe} {'again' if pair.label else ''}" for pair in PAIRS]
    assert probe_auroc(marked) > 0.9


def probe_auroc(views: list[str]) -> float:
    """Held-out AUROC of a linear probe on hashed words and word pairs; whole clusters are held out."""
    valid = np.array([pair.label for pair in PAIRS])
    hashed = HashingVectorizer(n_features=2**14, ngram_range=(1, 2)).transform(views)
    scores = cross_val_predict(
        LogisticRegression(C=10, max_iter=1000),
        hashed,
        valid,
        groups=[pair.cluster for pair in PAIRS],
        cv=GroupKFold(5),
        method="decision_function",
    )
    return float(roc_auc_score(valid, scores))


def test_neither_wording_nor_context_equality_is_the_label() -> None:
    """The same request stands in pairs of both labels, and most right answers are for a context that differs."""
    same_query = Counter(pair.label for pair in PAIRS if pair.q_cache == pair.q_probe)
    assert min(same_query.values()) >= 50
    other_context = Counter(pair.label for pair in PAIRS if pair.context_cache != pair.context_probe)
    assert min(other_context.values()) >= 120


def test_texts_are_clean() -> None:
    for pair in PAIRS:
        assert pair.r_cache.strip() == pair.r_cache != ""
        for context in (pair.context_cache, pair.context_probe):
            lines = context.split("\n")
            assert all(re.fullmatch(r"[A-Za-z][\w .-]*: \S.*", line) for line in lines), pair.pair_id
            assert len(set(lines)) == len(lines), pair.pair_id
        assert not re.search(r"\b(invalid|lorem|foo|todo|placeholder|reuse|cached?)\b", " ".join(texts(pair)), re.I)


def test_every_scenario_is_used() -> None:
    assert {f"seed-{scenario.name}" for group in SCENARIOS.values() for scenario in group} == {
        pair.cluster for pair in PAIRS
    }


def test_changed_replaces_a_line_or_adds_one() -> None:
    assert changed("a: 1\nb.c: 2", "b.c: 3") == "a: 1\nb.c: 3"
    assert changed("a: 1", "b: 2", "a: 0") == "a: 0\nb: 2"
    with pytest.raises(ValueError, match="'a:' begins 2 lines"):
        changed("a: 1\na: 2", "a: 3")


def test_a_scenario_that_would_not_balance_is_refused() -> None:
    turn = Turn("q", "a: 1")
    one = Side(change=Change.CHANGED_NUMBER, cached=turn, response="1", probes=(turn,))
    two = Side(change=Change.CHANGED_NUMBER, cached=turn, response="2", probes=(turn, turn))
    with pytest.raises(ValueError, match="equally many probes"):
        Scenario(name="uneven", sides=(one, two))
