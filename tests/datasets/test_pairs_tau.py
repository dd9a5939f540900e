"""The tool-state pairs: labels that the texts bear out, and nothing on one side that tells them."""

import re
from collections import Counter
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold
from sklearn.pipeline import make_pipeline

from cachemend.datasets.pair import Pair
from cachemend.datasets.pair_build import Built
from cachemend.datasets.pairs_tau import build_tau
from cachemend.datasets.tau_requests_retail import asks_of
from cachemend.datasets.tau_text import lines
from cachemend.repair_core.errors import InputError

from support.tau_folder import write_folder

SHARED = Path(__file__).resolve().parents[2] / "../shared/data"
on_real_data = pytest.mark.skipif(
    not (SHARED / "tau-bench").is_dir(), reason="tau-bench is not in a data folder beside this checkout"
)


@lru_cache(maxsize=1)
def real() -> Built:
    return build_tau(SHARED)


def said(context: str, key: str) -> list[str]:
    """The values under a key of a context."""
    return re.findall(rf"^{re.escape(key)}: (.*)$", context, re.MULTILINE)


def holds(pair: Pair) -> bool | None:
    """Whether the cached response is true of the probe's context, read off that text; None for other kinds of it."""
    context, response = pair.context_probe, pair.r_cache
    if match := re.fullmatch(r"Order (#W\d+) is ([a-z() ]+)(?:, reason: ([a-z ]+))?\.", response):
        order, status, reason = match.groups()
        return (
            said(context, "order.order_id") == [order]
            and said(context, "order.status") == [status]
            and said(context, "order.cancel_reason") == ([reason] if reason else [])
        )
    if match := re.fullmatch(r"Order (#W\d+) goes to (.*)\.", response):
        fields = ("address1", "address2", "city", "country", "state", "zip")
        address = ", ".join(said(context, f"order.address.{field}")[0] for field in fields)
        sent = sorted(match[2].split(", "))
        return said(context, "order.order_id") == [match[1]] and sent == sorted(address.split(", "))
    if response.startswith("Pending: "):
        orders = re.findall(r"^orders\.(#W\d+): pending", context, re.MULTILINE)
        return response == f"Pending: {', '.join(orders) or 'none'}."
    if match := re.fullmatch(r"Order (#W\d+): ((?:payment|refund) of .*)\.", response):
        history = re.findall(
            r"^order\.payment_history\.\d+: transaction_type (\w+), amount ([\d.]+), payment_method_id (\w+)$",
            context,
            re.MULTILINE,
        )
        told = [(kind, float(amount), method) for kind, amount, method in history]
        entries = [re.fullmatch(r"(\w+) of ([\d.]+) with (\w+)", entry) for entry in match[2].split("; ")]
        wanted = [(entry[1], float(entry[2]), entry[3]) for entry in entries if entry]
        return said(context, "order.order_id") == [match[1]] and told == wanted
    return None


@on_real_data
def test_the_asked_number_of_pairs_half_of_them_valid() -> None:
    pairs = real().pairs
    assert len(pairs) == 624
    assert len({pair.pair_id for pair in pairs}) == 624
    assert Counter((pair.rule, pair.label) for pair in pairs) == {
        ("unchanged", 1): 312,
        ("changed", 0): 156,
        ("other", 0): 156,
    }
    assert {(pair.pool, pair.source, pair.family) for pair in pairs} == {("reconstruction", "tau-bench", "tool-state")}
    clusters = Counter(pair.cluster for pair in pairs)
    assert len(clusters) > 200
    assert max(clusters.values()) <= 6
    assert real().rejects["call of a task that the tools refuse"] == 20


@on_real_data
def test_labels_are_what_the_probes_context_says() -> None:
    checked = [(pair, truth) for pair in real().pairs if (truth := holds(pair)) is not None]
    assert [pair.pair_id for pair, truth in checked if truth != bool(pair.label)] == []
    assert min(Counter(pair.label for pair, _ in checked).values()) > 60


@on_real_data
def test_no_pair_is_settled_by_its_texts_being_the_same() -> None:
    for pair in real().pairs:
        assert pair.context_cache != pair.context_probe
    same = Counter(pair.label for pair in real().pairs if pair.q_cache == pair.q_probe)
    assert min(same.values()) > 80  # the same question in the same words comes with both labels


@on_real_data
def test_a_user_belongs_to_one_cluster() -> None:
    clusters: dict[str, set[str]] = {}
    for pair in real().pairs:
        for context in (pair.context_cache, pair.context_probe):
            [user] = said(context, "user_id")
            clusters.setdefault(user, set()).add(pair.cluster)
    assert [user for user, of in clusters.items() if len(of) > 1] == []


@on_real_data
@pytest.mark.parametrize("side", ["request", "response"])
def test_one_side_alone_does_not_tell_the_label(side: str) -> None:
    pairs = real().pairs
    texts = np.array(
        [f"{p.q_probe}\n{p.context_probe}" if side == "request" else p.r_cache for p in pairs], dtype=object
    )
    valid = np.array([pair.label for pair in pairs])
    scores = np.zeros(len(pairs))
    for train, test in GroupKFold(5).split(texts, valid, [pair.cluster for pair in pairs]):
        probe = make_pipeline(TfidfVectorizer(sublinear_tf=True), LogisticRegression(C=10, max_iter=500))
        scores[test] = probe.fit(texts[train], valid[train]).predict_proba(texts[test])[:, 1]
    assert roc_auc_score(valid, scores) <= 0.60


def test_small_folder_gives_each_kind_and_the_same_pairs_again(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    built = build_tau(folder, n=1000, seed=5)
    assert built == build_tau(folder, n=1000, seed=5)
    assert built.pairs != build_tau(folder, n=1000, seed=6).pairs
    assert {pair.rule for pair in built.pairs} == {"unchanged", "changed", "other"}
    assert {pair.cluster for pair in built.pairs} == {
        "tau-bench:retail:ann_lee_1",
        "tau-bench:retail:bob_ray_2",
        "tau-bench:airline:dee_orr_4",
    }
    assert built.rejects["call of a task that the tools refuse"] == 1
    assert 2 * sum(pair.label for pair in built.pairs) == len(built.pairs)
    for pair in built.pairs:
        if (truth := holds(pair)) is not None:
            assert truth == bool(pair.label)
    texts = [(p.q_cache, p.r_cache, p.context_cache, p.q_probe, p.context_probe) for p in built.pairs]
    assert len(set(texts)) == len(texts)
    few = build_tau(folder, n=5, seed=5).pairs
    assert few == built.pairs[:5]


def test_both_pairs_of_a_twosome_have_the_cached_side_in_common(tmp_path: Path) -> None:
    pairs = build_tau(write_folder(tmp_path), n=1000).pairs
    for kept, gone in zip(pairs[::2], pairs[1::2], strict=True):
        assert (kept.label, gone.label) == (1, 0)
        assert (kept.q_cache, kept.r_cache, kept.context_cache) == (gone.q_cache, gone.r_cache, gone.context_cache)


def test_bad_input_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="n is 0"):
        build_tau(tmp_path, n=0)
    with pytest.raises(InputError, match="does not exist"):
        build_tau(tmp_path)


def test_instructions_are_taken_apart_into_one_sentence_per_action() -> None:
    instruction = (
        "Your name is Al Bo and your zip code is 12345. You are shy. Cancel order #W1 because ordered by mistake. "
        "For #W2, change address to {'order_id': '#W2', 'city': 'Rome', 'zip': '1'} (same as #W3). "
        "For #W4, modify Mouse {'color': 'red'} to {}; Lamp {'size': 'L'} to {'size': 'M'}; via paypal_1. "
        "Return #W5 via card_2: Mat; Pan; "
    )
    assert asks_of(instruction) == (
        "Cancel order #W1 because ordered by mistake.",
        "For #W2, change address to city Rome, zip 1 (same as #W3).",
        "For #W4, modify Mouse color red to the same; Lamp size L to size M; via paypal_1.",
        "Return #W5 via card_2: Mat; Pan",
    )


def test_records_become_lines() -> None:
    record = {
        "id": "x",
        "at": {"city": "Rome", "zip": 1},
        "items": [{"a": 1.5, "o": {"b": "c"}}],
        "none": [],
        "l": [1, 2],
    }
    assert lines(record, "r.").split("\n") == [
        "r.id: x",
        "r.at.city: Rome",
        "r.at.zip: 1",
        "r.items.1: a 1.50, o b c",
        "r.none: ",
        "r.l: 1, 2",
    ]
