"""Plausible faults in the position rules of an in-place edit.

Each case runs a second implementation twice: without a fault it agrees with the oracle, with it it does not.
"""

import re

import numpy as np
import pytest

from oracles import edit_policies as policies


def other_pool(a, b, n, fault):
    start = {"from the edit's start": a, "one late": b + 1, "one early": b - 1}.get(fault, b)
    stop = {"with the last token": n, "two short": n - 2}.get(fault, n - 1)
    return np.arange(start, stop).tolist()


@pytest.mark.parametrize(
    "fault", ["from the edit's start", "one late", "one early", "with the last token", "two short"]
)
def test_pool_fault(fault):
    assert other_pool(3, 5, 12, None) == policies.pool(3, 5, 12)
    assert other_pool(3, 5, 12, fault) != policies.pool(3, 5, 12)


def other_window(a, b, n, k, fault):
    start = {"one late": b + 1, "from the edit's start": a, "before the edit": a - k}.get(fault, b)
    length = {"span counted in k": k - (b - a), "one short": k - 1, "one long": k + 1}.get(fault, k)
    return np.arange(start, start + length).tolist()


@pytest.mark.parametrize(
    "fault",
    ["one late", "from the edit's start", "before the edit", "span counted in k", "one short", "one long"],
)
def test_edit_local_fault(fault):
    assert other_window(4, 6, 20, 3, None) == policies.edit_local(6, 20, 3)
    assert other_window(4, 6, 20, 3, fault) != policies.edit_local(6, 20, 3)


def test_edit_local_reaches_past_the_pool():
    assert other_window(4, 6, 12, 5, None) == policies.edit_local(6, 12, 5)
    with pytest.raises(ValueError):  # [6, 12) holds the last token
        policies.edit_local(6, 12, 6)


def other_boundary(texts, b, n, fault):
    """By a pattern on characters instead of by lines."""
    ends = np.cumsum([len(text) for text in texts[:n]])
    starts = ends - [len(text) for text in texts[:n]]
    whole = "".join(texts[:n])
    pattern = {"first newline": r"\n", "bare newlines only": r"\n\n"}.get(fault, r"\n(?=[^\S\n]*\n)")
    after = 0 if fault == "from the text's start" else max(0, starts[b] - 1)
    if fault == "inside one token":
        hit = [starts[i] for i in range(b, n) if "\n\n" in texts[i]]
        stop = hit[0] + 1 if hit else len(whole)
    else:
        found = re.compile(pattern).search(whole, after)
        stop = found.start() + 1 if found else len(whole) + 1  # an empty text at the end starts at len(whole)
    if fault == "newline left out":
        stop -= 1
    last = n if fault == "with the last token" else n - 1
    chosen = [i for i in range(b, last) if starts[i] < stop]
    if fault == "only whole tokens":
        chosen = [i for i in chosen if ends[i] <= stop]
    if fault == "one more token":
        chosen.append(chosen[-1] + 1)
    if fault == "one token fewer":
        chosen.pop()
    if fault == "blank line too":
        chosen += [i for i in range(chosen[-1] + 1, last) if texts[i].strip() == ""][:1]
    return chosen


DOCUMENT = ["T\n\n", "x", " is", " y", "\n", "z", ".", "\n", "\n", "B", "\n\n", "C"]  # block: 2 ... 7
FUSED = ["T", "x", " is", ".\n\n", "B", ".\n\n", "C", "D"]  # 2, 3
SPACED = ["T", "x", " is", "\n \n", "B", ".\n\n", "C", "D"]  # 2, 3
OPEN = ["T", "x", " is", " y", "z"]  # 2, 3


@pytest.mark.parametrize(
    ("fault", "texts"),
    [
        ("first newline", DOCUMENT),
        ("bare newlines only", SPACED),
        ("from the text's start", DOCUMENT),
        ("inside one token", DOCUMENT),
        ("newline left out", DOCUMENT),
        ("with the last token", OPEN),
        ("only whole tokens", FUSED),
        ("one more token", FUSED),
        ("one token fewer", FUSED),
        ("blank line too", DOCUMENT),
    ],
)
def test_boundary_fault(fault, texts):
    truth = policies.edit_local_boundary(texts, 2, len(texts))
    assert other_boundary(texts, 2, len(texts), None) == truth
    assert other_boundary(texts, 2, len(texts), fault) != truth


def test_boundary_agrees_on_random_texts():
    rng = np.random.default_rng(0)
    for _ in range(300):
        n = int(rng.integers(4, 14))
        texts = rng.choice(["a", " b", "\n", " ", "c.\n", "\n\n", "d\n\ne", ""], size=n).tolist()
        b = int(rng.integers(2, n))
        texts[b - 1] = "x"  # the edit itself ends no line
        assert other_boundary(texts, b, n, None) == policies.edit_local_boundary(texts, b, n), texts


def other_structural(texts, b, n, k, fault):
    signs = set(".,;:|!?)]}" + ("([{" if fault == "opening brackets" else ""))
    found = []
    for i in range(0 if fault == "before the edit too" else b, n if fault == "with the last token" else n - 1):
        text = texts[i] if fault == "not stripped" else texts[i].strip()
        only = bool(text or fault == "white space counts") and set(text) <= signs
        if fault == "any sign inside":
            only = bool(set(text) & signs)
        newline = "\n" in texts[i] and fault != "newlines forgotten"
        if fault == "newline alone":
            newline = texts[i].strip(" ") == "\n"
        marker = fault != "markers forgotten" and (
            text in list("-*+•") or (text[:-1].isdecimal() and text[-1:] in list(".)"))
        )
        if only or newline or marker:
            found.append(i)
    found = found[-k:] if fault == "the last k" else found[:k]
    return found, 0 if fault == "no top-up" else k - len(found)


@pytest.mark.parametrize(
    "fault",
    [
        "opening brackets",
        "before the edit too",
        "with the last token",
        "not stripped",
        "white space counts",
        "any sign inside",
        "newlines forgotten",
        "newline alone",
        "markers forgotten",
        "the last k",
        "no top-up",
    ],
)
def test_structural_fault(fault):
    texts = [".", "x", " is", " .", "(", "a.b", " ", "w\n", "\n", "-", "3.", "A", ")", "B", "."]
    differs = False
    for k in range(13):
        truth = policies.structural(texts, 2, 15, k)
        assert other_structural(texts, 2, 15, k, None) == truth
        differs = differs or other_structural(texts, 2, 15, k, fault) != truth
    assert differs


def other_top_k(scores, pool, k, fault):
    s, at = np.array(scores, dtype=float), np.array(pool)
    if fault == "outside the pool":
        at = np.arange(len(s))
    key = s[: len(at)] if fault == "pool's own index" else s[at]
    if fault == "smallest":
        key = -key
    if fault == "later first on ties":
        order = np.lexsort((-at, -key))
    elif fault == "magnitude":
        order = np.argsort(-abs(key), kind="stable")
    else:
        order = np.argsort(-key, kind="stable")
    return np.sort(at[order[:k]]).tolist()


@pytest.mark.parametrize(
    "fault", ["outside the pool", "pool's own index", "smallest", "later first on ties", "magnitude"]
)
def test_top_k_fault(fault):
    scores, pool = [7, 0, 1, 3, 3, -5, 3, 2, 9], range(2, 8)
    truth = policies.top_k(scores, pool, 2)
    assert other_top_k(scores, pool, 2, None) == truth
    assert other_top_k(scores, pool, 2, fault) != truth


def other_carrier(carrier, b, n, k, fault):
    start = carrier - k // 2 if fault == "centred" else carrier
    stop = start + k
    if fault == "one late":
        start, stop = start + 1, stop + 1
    last = n if fault == "with the last token" else n - 1
    if stop > last and fault != "cut off":
        start, stop = last - k, last
    return list(range(start, min(stop, last)))


@pytest.mark.parametrize("fault", ["centred", "one late", "with the last token", "cut off"])
def test_carrier_window_fault(fault):
    cases = [(carrier, 4, 20, 4) for carrier in (8, 17)]
    assert all(other_carrier(*case, None) == policies.carrier_window(*case) for case in cases)
    assert any(other_carrier(*case, fault) != policies.carrier_window(*case) for case in cases)


def test_top_k_agrees_on_random_cases():
    rng = np.random.default_rng(1)
    for _ in range(60):
        n = int(rng.integers(5, 12))
        scores, k = rng.integers(0, 4, size=n).tolist(), int(rng.integers(0, n - 3))
        span = policies.pool(1, 2, n)
        assert other_top_k(scores, span, k, None) == policies.top_k(scores, span, k)
