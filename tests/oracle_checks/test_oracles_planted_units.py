"""Plausible faults in units and allocators: a second implementation agrees without the fault, not with it."""

import bisect
import itertools
import math
import re

import numpy as np
import pytest

from oracles import allocators
from oracles.units import units


def other_units(spans, containers, fault):
    """Units by bisection and by arithmetic on unit sizes alone."""
    starts = [(start, c) for c, pieces in enumerate(containers) for start, _ in pieces]
    places = [start for start, _ in starts]
    find = bisect.bisect_left if fault == "boundary goes left" else bisect.bisect_right
    home = []
    for start, end in spans:
        if start == end and home and fault != "zero width by its place":
            home.append(home[-1])
        else:
            home.append(find(places, start if fault == "by first character" else (start + end) / 2) - 1)
    runs = [(starts[h][1], len(list(group))) for h, group in itertools.groupby(home)]
    sizes = []
    for _, group in itertools.groupby(runs, key=lambda run: None if fault == "across containers" else run[0]):
        sizes += merge_sizes([n for _, n in group], fault)
    edges = list(itertools.accumulate(sizes, initial=0))
    return [list(range(a, b)) for a, b in itertools.pairwise(edges)]


def split_size(n, fault):
    if fault == "full chunks":
        return [128] * (n // 128) + ([n % 128] if n % 128 else [])
    base, extra = divmod(n, -(-n // 128))
    sizes = [base + 1] * extra + [base] * (-(-n // 128) - extra)
    return sizes[::-1] if fault == "shorter first" else sizes


def merge_sizes(sizes, fault):
    def split(n):
        return [n] if fault == "merge before split" else split_size(n, fault)

    sizes = [part for n in sizes for part in split(n)]
    k = 0
    while k < len(sizes) > 1:
        short = [j for j, n in enumerate(sizes) if n < 8]
        if fault == "one pass":
            short = [k] if k in short else []
            k += 1
            if not short:
                continue
        if not short:
            break
        j = short[-1 if fault == "rightmost first" else 0]
        before = sizes[j - 1] if j else math.inf
        after = sizes[j + 1] if j + 1 < len(sizes) else math.inf
        into_before = before < after if fault == "tie to the following" else before <= after
        if fault == "larger neighbour" and math.inf not in (before, after):
            into_before = before > after
        if fault == "always the preceding":
            into_before = j > 0
        left = j - 1 if into_before else j
        total = sizes[left] + sizes[left + 1]
        sizes[left : left + 2] = [total] if fault == "not split again" else split(total)
    return sizes if fault != "merge before split" else [part for n in sizes for part in split_size(n, None)]


def layout(sizes):
    """Tokens two characters wide; sizes: per container, the token count of every piece."""
    at, containers = 0, []
    for pieces in sizes:
        edges = list(itertools.accumulate([2 * n for n in pieces], initial=at))
        containers.append(list(itertools.pairwise(edges)))
        at = edges[-1]
    return [(c, c + 2) for c in range(0, at, 2)], containers


WIDE = [(c, c + 2) for c in range(0, 20, 2)]  # ten tokens that fill [0, 20)


@pytest.mark.parametrize(
    ("fault", "case"),
    [
        ("shorter first", layout([[129]])),
        ("full chunks", layout([[140]])),
        ("merge before split", layout([[130, 5]])),
        ("across containers", layout([[10], [3], [10]])),
        ("tie to the following", layout([[10, 3, 10]])),
        ("larger neighbour", layout([[10, 3, 12]])),
        ("always the preceding", layout([[12, 3, 10]])),
        ("rightmost first", layout([[9, 7, 8, 7, 20]])),
        ("one pass", layout([[3, 2, 2, 9]])),
        ("not split again", layout([[128, 5]])),
        (
            "boundary goes left",
            ([*WIDE, (19, 21), *[(c, c + 2) for c in range(21, 39, 2)]], [[(0, 20), (20, 40)]]),
        ),
        (
            "by first character",
            ([*WIDE, (19, 23), *[(c, c + 2) for c in range(23, 39, 2)]], [[(0, 20), (20, 40)]]),
        ),
        (
            "zero width by its place",
            ([*WIDE, (20, 20), *[(c, c + 2) for c in range(20, 38, 2)]], [[(0, 20), (20, 40)]]),
        ),
    ],
)
def test_units_fault(fault, case):
    assert other_units(*case, None) == units(*case)
    assert other_units(*case, fault) != units(*case)


def test_units_agree_on_random_layouts():
    rng = np.random.default_rng(0)
    for _ in range(40):
        sizes = [rng.integers(1, rng.choice([9, 20, 300]), size=rng.integers(1, 7)).tolist() for _ in range(3)]
        spans, containers = layout(sizes)
        for at in sorted(rng.integers(1, len(spans), size=3).tolist(), reverse=True):
            spans.insert(at, (spans[at - 1][1],) * 2)
        assert other_units(spans, containers, None) == units(spans, containers)


def other_sur(r, layout, B, fault):
    r = np.array(r, dtype=float)
    score = {
        "mean of all": lambda x: x.mean(),
        "sum of four": lambda x: np.sort(x)[-4:].sum(),
        "largest": lambda x: x.max(),
    }.get(fault, lambda x: np.sort(x)[-4:].mean())
    scores = np.array([score(r[unit]) for unit in layout])
    ranked = np.argsort(-scores, kind="stable").tolist()
    if fault == "tie to later unit":
        ranked = sorted(range(len(layout)), key=lambda k: (-scores[k], -k))
    chosen = []
    for k in ranked:
        unit, left = layout[k], B - len(chosen)
        if len(unit) <= left:
            chosen += unit
        elif left and fault != "skips what does not fit":
            chosen += [unit[0] + t for t in other_window(r, unit, left, fault)]
    return sorted(chosen)


def other_window(r, unit, width, fault):
    x, decay = r[unit], math.exp(-1 / (4 if fault == "faster decay" else 16))
    u = np.exp(x - x.max())
    order = range(len(u) - 2, -1, -1) if fault == "backward envelope" else range(1, len(u))
    step = 1 if fault == "backward envelope" else -1
    if fault == "envelope from before" and unit[0]:
        u[0] = max(u[0], decay * np.exp(r[unit[0] - 1] - x.max()))
    for t in order:
        u[t] = max(u[t], decay * u[t + step])
    if fault == "added envelope":
        u = np.exp(x - x.max())
        for t in order:
            u[t] += decay * u[t - 1]
    if fault == "no envelope":
        u = x
    sums = np.convolve(u, np.ones(width), "valid")
    sums = sums[:-1] if fault == "misses the last window" else sums
    start = int(np.argmax(sums)) if fault != "latest window" else len(sums) - 1 - int(np.argmax(sums[::-1]))
    return range(start, start + width)


PEAK = [0.5, 0.5, 0.9, 0.1, 0.1]


@pytest.mark.parametrize(
    ("fault", "r", "sizes", "B"),
    [
        ("mean of all", [1, 1, 1, 1, 0, 0, 0, 0, 0.8, 0.8, 0.8, 0.8], [8, 4], 4),
        ("sum of four", [0.5, 0.5, 0.5, 0.5, 0.9, 0.9], [4, 2], 2),
        ("largest", [0.9, 0, 0, 0, 0.8, 0.8, 0.8, 0.8], [4, 4], 4),
        ("tie to later unit", [0.5, 0.5, 0.5, 0.5], [2, 2], 2),
        ("skips what does not fit", [0.9, 0.9, 0.9, 0.1, 0.1], [3, 2], 2),
        ("backward envelope", PEAK, [5], 3),
        ("no envelope", PEAK, [5], 3),
        ("misses the last window", PEAK, [5], 3),
        ("latest window", [0.5, 0.5, 0.5, 0.5], [4], 2),
        ("faster decay", [0.7, 0.7, 0.7, 0.9, 0, 0], [6], 3),
        ("added envelope", [0.9, 0.88, 0.86, 0.84], [4], 2),
        ("envelope from before", [0.8, 0.8, 0.1, 0.1, 0.1, 0.7, 0.1, 0.1], [2, 6], 3),
    ],
)
def test_sur_fault(fault, r, sizes, B):
    edges = list(itertools.accumulate(sizes, initial=0))
    parts = [list(range(a, b)) for a, b in itertools.pairwise(edges)]
    truth = allocators.sur(r, parts, B)
    assert other_sur(r, parts, B, None) == truth
    assert other_sur(r, parts, B, fault) != truth


def test_dense_and_window_faults():
    r = np.array([1.0, 3, 3, 3, 0, 3, 3, 0, 6])
    assert np.sort(np.argsort(-r, kind="stable")[:3]).tolist() == allocators.dense_tokens(r, 3) == [1, 2, 8]
    latest = sorted(np.lexsort((-np.arange(9), -r))[:3].tolist())
    assert latest != allocators.dense_tokens(r, 3)
    sums = np.convolve(r, np.ones(3), "valid")  # 7 9 6 6 6 6 9
    assert allocators.max_relevance_window(r, 3) == [1, 2, 3]
    assert len(sums) - 1 - int(np.argmax(sums[::-1])) != 1  # the latest maximiser
    r[8] = 7
    assert allocators.max_relevance_window(r, 3) == [6, 7, 8]
    assert int(np.argmax(np.convolve(r, np.ones(3), "valid")[:-1])) != 6  # the last window forgotten
    assert int(np.argmax([r[max(0, a - 1) : a + 2].sum() for a in range(9)])) != 6  # centred


def other_bm25(texts, query, fault):
    pattern = {"words with underscores": r"\w+", "white space": r"\S+"}.get(fault, r"[a-z0-9]+")
    docs, asked = [re.findall(pattern, t.lower()) for t in texts], re.findall(pattern, query.lower())
    if fault == "case kept":
        docs, asked = [re.findall(r"[A-Za-z0-9]+", t) for t in texts], re.findall(r"[A-Za-z0-9]+", query)
    asked = sorted(set(asked)) if fault == "query terms once" else asked
    lengths = np.array([len(d) for d in docs], dtype=float)
    average = lengths[lengths > 0].mean() if fault == "average of non-empty units" else lengths.mean()
    k1, b = (1.5, 0.75) if fault == "k1 of 1.5" else (1.2, 0.5 if fault == "b of one half" else 0.75)
    scores = np.zeros(len(docs))
    for term in asked:
        tf = np.array([d.count(term) for d in docs], dtype=float)
        df = tf.sum() if fault == "df counts occurrences" else (tf > 0).sum()
        idf = np.log((0 if fault == "idf without one" else 1) + (len(docs) - df + 0.5) / (df + 0.5))
        scores += idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * lengths / average))
    return scores.tolist()


@pytest.mark.parametrize(
    "fault",
    [
        "query terms once",
        "idf without one",
        "average of non-empty units",
        "df counts occurrences",
        "case kept",
        "words with underscores",
        "white space",
        "k1 of 1.5",
        "b of one half",
    ],
)
def test_bm25_fault(fault):
    texts, query = (
        ["The key: red_7 red", "a blue key, the Key", "…", "long text on other things"],
        "Red key key?",
    )
    truth = allocators.bm25_scores(texts, query)
    assert other_bm25(texts, query, None) == pytest.approx(truth, abs=1e-13)
    assert other_bm25(texts, query, fault) != pytest.approx(truth, abs=1e-6)


@pytest.mark.parametrize(
    ("faulty", "positions"),
    [
        (lambda us, B, p: len(p) == B, [0, 2, 4]),  # the count alone
        (lambda us, B, p: len(set(p)) <= B, [3, 4]),  # too few
        (lambda us, B, p: sum(0 < len(set(u) & set(p)) < len(u) for u in us) <= 1, [0, 2, 9]),  # a hole
        (lambda us, B, p: max(p) - min(p) < B, [2, 3, 3]),  # a repeat
        (lambda us, B, p: max(p) - min(p) < B, [2, 3, 4]),  # contiguous, but in parts of two units
    ],
)
def test_random_units_fault(faulty, positions):
    layout = [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    for good in ([3, 4, 5], [0, 1, 2]):
        assert allocators.random_units_valid(layout, 3, good)
        assert faulty(layout, 3, good)
    assert faulty(layout, 3, positions) is True
    assert allocators.random_units_valid(layout, 3, positions) is False
