"""Plausible faults in budgets, scores, parsing, statistics and counts: each oracle must tell them apart.

Each case runs a second implementation twice: without a fault it agrees with the oracle, with it it does not.
"""

import math
import re
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binomtest

from oracles import counts, scoring, stats
from oracles.budget import budget
from oracles.intervals import intervals
from oracles.relevance import relevance


def other_budget(suffix_length, percent, fault):
    if fault == "binary percent":
        return math.ceil(Fraction(percent) * suffix_length / 100)
    if fault == "floating point":
        return math.ceil(suffix_length * (percent / 100))
    length = suffix_length + 50 if fault == "of the context" else suffix_length
    thousandths = round(percent * 1000) * length
    if fault == "floor":
        return thousandths // 100_000
    if fault == "nearest":
        return round(thousandths / 100_000)
    count = -(-thousandths // 100_000)
    return max(1, count) if fault == "at least one" else count


@pytest.mark.parametrize(
    ("fault", "case"),
    [
        ("floor", (101, 5)),
        ("nearest", (101, 5)),
        ("binary percent", (1000, 0.1)),  # the binary float lies above a tenth
        ("floating point", (100, 7)),  # 100 * 0.07 is 7.000000000000001
        ("at least one", (50, 0)),
        ("of the context", (100, 5)),
    ],
)
def test_budget_fault(fault, case):
    assert other_budget(*case, None) == budget(*case)
    assert other_budget(*case, fault) != budget(*case)


TABLE = np.array([[0.3, 1.1, 0.2], [2, 0.5, 1], [2, 0.5, 1], [0.1, 0.1, 3], [0, 0, 0], [1.7, 0.4, 0.9]])


def other_relevance(suffix, query, fault):
    suffix, query = np.array(suffix), np.array(query)
    norms = np.linalg.norm(TABLE, axis=1, keepdims=True)
    unit = TABLE if fault == "dot product" else TABLE / np.where(norms == 0, 1, norms)
    cosine = unit[suffix] @ unit[query].T
    same = suffix[:, None] == query[None, :]
    if fault not in ("no identity", "dot product"):
        cosine[same] = 1.0
    best = cosine.mean(1) if fault == "mean over the query" else cosine.max(1)
    bonus = {
        "no bonus": 0.0 * same.any(1),
        "bonus per occurrence": 0.25 * same.sum(1),
        "bonus by embedding": 0.25 * (cosine > 1 - 1e-9).any(1),
        "bonus of one": 1.0 * same.any(1),
    }.get(fault, 0.25 * same.any(1))
    r = best + bonus
    if fault == "not quantised":
        return r
    return (np.floor if fault == "quantised down" else np.round)(r * 2**20) / 2**20


@pytest.mark.parametrize(
    ("fault", "case"),
    [
        ("mean over the query", ([0, 5], [1, 3])),
        ("no bonus", ([0, 3], [3, 1])),
        ("bonus per occurrence", ([0, 3], [3, 3])),
        ("bonus by embedding", ([2], [1])),  # another id with the same embedding
        ("bonus of one", ([3], [3])),
        ("dot product", ([0, 1], [3])),
        ("no identity", ([4], [4, 0])),  # a zero embedding
        ("not quantised", ([0], [1])),
        ("quantised down", ([0, 1, 5], [3, 0])),
    ],
)
def test_relevance_fault(fault, case):
    truth = relevance(TABLE, *case).r.tolist()
    assert other_relevance(*case, None).tolist() == truth
    assert other_relevance(*case, fault).tolist() != truth


def other_intervals(positions, fault):
    gap = 2 if fault == "bridges a gap" else 0 if fault == "never joins" else 1
    found = []
    for u in sorted(positions) if fault != "trusts the order" else positions:
        if found and u - found[-1][1] < gap and gap:
            found[-1] = (found[-1][0], u + 1)
        else:
            found.append((u, u + 1))
    return [(a, b - 1) for a, b in found] if fault == "closed ends" else found


@pytest.mark.parametrize("fault", ["bridges a gap", "never joins", "trusts the order", "closed ends"])
def test_intervals_fault(fault):
    positions = [7, 3, 4, 6, 9]
    assert other_intervals(positions, None) == intervals(positions) == [(3, 5), (6, 8), (9, 10)]
    assert other_intervals(positions, fault) != intervals(positions)


def other_parse(answer, fault):
    if fault != "keeps thinking":
        answer = re.sub(r"<think>.*?</think>", "\n", answer, flags=re.DOTALL)
    if "<think>" in answer and fault not in ("keeps thinking", "forgives an open block"):
        return []
    marker = r"<\|channel\|>final<\|message\|>|<answer>|^\s*(?:final )?answer:"
    flags = re.MULTILINE | re.IGNORECASE
    ends = [m.end() for m in re.finditer(marker if fault != "loose marker" else r"answer:", answer, flags)]
    if ends and fault != "no markers":
        answer = answer[ends[0] if fault == "first marker" else ends[-1] :]
    if fault == "first line":
        answer = answer.split("\n")[0]
    if fault == "joins thousands":
        answer = answer.replace(",", "")
    if fault == "strips glue":
        return re.findall(r"\b\d+\b", answer)
    runs = re.findall(r"\d+", answer)
    if fault == "dedupes":
        return list(dict.fromkeys(runs))
    if fault == "reads integers":
        return [str(int(run)) for run in runs]
    return sorted(runs) if fault == "sorts" else runs


@pytest.mark.parametrize(
    ("fault", "answer"),
    [
        ("dedupes", "4821, 17, 4821"),
        ("first line", "4821\n17"),
        ("keeps thinking", "<think>maybe 9</think>4821"),
        ("forgives an open block", "<think>maybe 9"),
        ("no markers", "Of the 2 keys:\nAnswer: 4821"),
        ("first marker", "Answer: 9\nFinal answer: 4821"),
        ("loose marker", "17 is the answer: 4821"),
        ("joins thousands", "4,821"),
        ("strips glue", "key4821"),
        ("reads integers", "0042"),
        ("sorts", "9, 17, 3"),
    ],
)
def test_parse_fault(fault, answer):
    assert other_parse(answer, None) == scoring.parse_niah(answer)
    assert other_parse(answer, fault) != scoring.parse_niah(answer)


@pytest.mark.parametrize(
    ("faulty", "parsed", "gold"),
    [
        (lambda p, g: set(p) == set(g), ["1", "1"], ["1"]),
        (lambda p, g: sorted(p) == sorted(g), ["2", "1"], ["1", "2"]),
        (lambda p, g: p[: len(g)] == g, ["1", "2", "3"], ["1", "2"]),
        (lambda p, g: " ".join(g) in " ".join(p), ["9", "1", "2"], ["1", "2"]),
        (lambda p, g: [int(x) for x in p] == [int(x) for x in g], ["01"], ["1"]),
    ],
)
def test_list_score_fault(faulty, parsed, gold):
    assert faulty(gold, gold) is scoring.list_exact(gold, gold) is True
    assert faulty(parsed, gold) is not scoring.list_exact(parsed, gold)


@pytest.mark.parametrize(
    ("faulty", "parsed", "gold"),
    [
        (lambda p, g: p == g, ["1", "7"], ["1"]),
        (lambda p, g: g[0] in p, ["7", "1"], ["1"]),
        (lambda p, g: bool(p) and p[0] in g, ["2"], ["1", "2"]),
        (lambda p, g: bool(p) and p[0].startswith(g[0]), ["12"], ["1"]),
    ],
)
def test_first_value_score_fault(faulty, parsed, gold):
    assert faulty(gold, gold) is scoring.first_value_exact(gold, gold) is True
    assert faulty(parsed, gold) is not scoring.first_value_exact(parsed, gold)


def other_mcnemar(b, c, fault):
    n, k = b + c, min(b, c)
    if fault == "one-sided":
        return binomtest(k, n, alternative="less").pvalue
    if fault == "mid p":
        return binomtest(k, n).pvalue - math.comb(n, k) / 2**n
    if fault == "chi-square":
        return math.erfc(abs(b - c) / math.sqrt(2 * n))
    p = 2 * sum(math.comb(n, j) for j in range(k + 1)) / 2**n
    return p if fault == "not capped" else binomtest(b, n).pvalue


@pytest.mark.parametrize(
    ("fault", "case"),
    [("one-sided", (1, 7)), ("mid p", (1, 7)), ("chi-square", (1, 7)), ("not capped", (4, 4))],
)
def test_mcnemar_fault(fault, case):
    assert other_mcnemar(*case, None) == pytest.approx(stats.mcnemar_exact_p(*case), abs=1e-14)
    assert other_mcnemar(*case, fault) != pytest.approx(stats.mcnemar_exact_p(*case), abs=1e-3)


def other_holm(ps, fault):
    ps, m = np.array(ps), len(ps)
    order = np.argsort(ps)
    factors = {"Bonferroni": np.full(m, m), "Hochberg's false discovery": m / np.arange(1, m + 1)}
    raised = np.minimum(1, ps[order] * factors.get(fault, np.arange(m, 0, -1)))
    raised = raised if fault == "not monotone" else np.maximum.accumulate(raised)
    if fault == "sorted order":
        return raised.tolist()
    out = np.empty(m)
    out[order] = raised
    return out.tolist()


@pytest.mark.parametrize("fault", ["Bonferroni", "Hochberg's false discovery", "not monotone", "sorted order"])
def test_holm_fault(fault):
    ps = [0.04, 0.01, 0.03, 0.2]
    assert other_holm(ps, None) == pytest.approx(stats.holm(ps), abs=1e-15)
    assert other_holm(ps, fault) != pytest.approx(stats.holm(ps), abs=1e-6)


def other_nr_tv(a, clean, dirty, fault):
    a, clean, dirty = (np.array(x) for x in (a, clean, dirty))
    top, bottom = abs(a - clean).sum() / 2, abs(dirty - clean).sum() / 2
    if fault == "against the dirty side":
        bottom = abs(dirty - a).sum() / 2
    if bottom == 0:
        return 1.0 if fault == "zero denominator is full recovery" else None
    value = (0 if fault == "distance itself" else 1) - top / bottom
    return max(0.0, value) if fault == "clipped" else value


@pytest.mark.parametrize(
    ("fault", "case"),
    [
        ("clipped", ([0.1, 0.9], [0.9, 0.1], [0.5, 0.5])),
        ("against the dirty side", ([0.8, 0.2], [0.9, 0.1], [0.5, 0.5])),
        ("distance itself", ([0.8, 0.2], [0.9, 0.1], [0.5, 0.5])),
        ("zero denominator is full recovery", ([0.8, 0.2], [0.5, 0.5], [0.5, 0.5])),
    ],
)
def test_nr_tv_fault(fault, case):
    truth = stats.nr_tv(*case)
    assert other_nr_tv(*case, None) == (truth if truth is None else pytest.approx(truth, abs=1e-14))
    assert other_nr_tv(*case, fault) != (truth if truth is None else pytest.approx(truth, abs=1e-6))


def test_total_variation_without_the_half():
    p, q = [0.7, 0.2, 0.1], [0.1, 0.2, 0.7]
    assert stats.tv(p, q) == pytest.approx(0.6)
    assert np.abs(np.subtract(p, q)).sum() != pytest.approx(stats.tv(p, q))


@pytest.mark.parametrize("fault", ["nearest rank", "90 percent", "normal", "another seed", "without replacement"])
def test_bootstrap_fault(fault):
    values = np.array([0.1, 2.0, 0.4, 7.0, 1.5])
    rng = np.random.default_rng(1 if fault == "another seed" else 20260928)
    rows = rng.integers(0, 5, size=(40, 5))
    truth = stats.percentile_bootstrap_mean(values.tolist(), replicates=40)
    if fault != "another seed":
        assert np.percentile(values[rows].mean(1), [2.5, 97.5]) == pytest.approx(truth[1:], abs=1e-12)
    if fault == "without replacement":
        rows = np.array([rng.permutation(5) for _ in range(40)])
    means = values[rows].mean(1)
    ends = [5, 95] if fault == "90 percent" else [2.5, 97.5]
    faulty = np.percentile(means, ends, method="nearest" if fault == "nearest rank" else "linear")
    if fault == "normal":
        faulty = means.mean() + np.array([-1.96, 1.96]) * means.std()
    assert faulty != pytest.approx(truth[1:], abs=1e-6)


def test_count_faults():
    prefix, suffix, chosen = 5, 8, [2, 3, 7]
    truth = counts.causal_pairs(prefix, chosen)
    assert truth == counts.causal_pairs_absolute([prefix + i - 1 for i in chosen]) == 27
    assert sum(prefix + i - 1 for i in chosen) != truth  # a query that does not read itself
    assert len(chosen) ** 2 != truth  # attention among the packed rows alone
    assert counts.replay_pairs(prefix, suffix) == suffix * prefix + suffix * (suffix + 1) // 2
    assert suffix * prefix + suffix * (suffix - 1) // 2 != counts.replay_pairs(prefix, suffix)
    # The plain share B / S is no bound: the last three positions read more than 3/8 of Replay's pairs.
    share = counts.largest_pairs(prefix, suffix, 3) / counts.replay_pairs(prefix, suffix)
    assert 3 / 8 < share <= counts.pair_bound(suffix, 3)
    for p in range(4):
        for s in range(1, 7):
            for b in range(s + 1):
                top = counts.largest_pairs(p, s, b)
                assert top == b * (p + s) - b * (b - 1) // 2
                assert top <= counts.pair_bound(s, b) * counts.replay_pairs(p, s)
