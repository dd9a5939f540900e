"""Plausible faults in the router's parts: a second version agrees with the oracle, and with a fault it does not."""

import functools
import itertools
import math
import random
from fractions import Fraction as F

import numpy as np
import pytest
from scipy import stats as library
from sklearn.feature_extraction.text import HashingVectorizer
from statsmodels.stats.proportion import proportion_confint

from oracles import routing_bounds as bounds
from oracles import routing_map as maps
from oracles import routing_matching as matching
from oracles import routing_policy as router
from oracles import routing_verdicts as verdicts

TEXTS = ["State auth.x is granted", "state auth.x is denied", "fact a #1:a/2-b on", "fact a é b c c c a b", "! ?", ""]
RIGHT = {"ngram_range": (1, 2), "n_features": 2**18, "token_pattern": r"[\w#:./-]+"}
WRONG = [{"ngram_range": (1, 1)}, {"n_features": 2**17}, {"alternate_sign": False}, {"norm": "l1"}, {"binary": True}]
WRONG += [{"token_pattern": r"(?u)\b\w\w+\b"}, {"lowercase": False}, {"ngram_range": (1, 3)}, {"norm": None}]
MATCH = ["open when empty", "unclipped", "request side", "no margin alone", "mean of the rest", "worst", "margin"]
MAP = ["five blocks", "ties cut", "equal rates merged", "not merged", "gap below", "interpolated", "95 %", "one-sided"]
MAP += ["Wald", "half width", "blend reversed", "smaller uncertainty"]
RUN = ["strict", "conflict reused", "one tau", "looser tau", "d free", "u free", "empty verified", "rounded", "float"]
RUN += ["over all", "full last window", "exhausted reuses", "refusals free", "label", "not INVALID", "demand called"]
CHOICE = ["no filter", "rate of all", "strict alpha", "calls first", "unsafe first", "loose", "first", "accepted"]
faults = functools.partial(pytest.mark.parametrize, "fault")


@faults([{}, *WRONG])
def test_hashing(fault):
    rows = HashingVectorizer(**(RIGHT | fault)).transform(TEXTS)
    made = [{int(i): v for i, v in zip(row.indices, row.data, strict=True) if v} for row in rows]
    assert (made == [pytest.approx(matching.unit(text)) for text in TEXTS]) is (not fault)


def other_match(a, b, fault):
    if not a or not b:
        return (0.0, 0.0) if fault == "open when empty" else (1.0, 1.0)
    x, y = (HashingVectorizer(**RIGHT).transform([" ".join(r) for r in side]) for side in (a, b))
    m = (x @ y.T).toarray().clip(-1 if fault == "unclipped" else 0, 1)
    m = np.sort(m.T if fault == "request side" else m, axis=1)[:, ::-1]
    second = m[:, 1] if m.shape[1] > 1 else m[:, 0] * (fault == "no margin alone")
    if fault == "mean of the rest" and m.shape[1] > 1:
        second = m[:, 1:].mean(axis=1)
    margin = (m[:, 0] - second).mean()
    return 1 - (m[:, 0].min() if fault == "worst" else m[:, 0].mean()), margin if fault == "margin" else 1 - margin


@faults(["", *MATCH])
def test_matching(fault):
    p, q, r = (tuple(x.split()) for x in ("state a is on", "state a is off", "tool a was off"))
    cases = [([p], [q, r, ("x", "y", "is", "a")]), ([p, r], [q]), ([], [q])]
    seen = {}  # until two words share a place with opposite signs
    for word in map("w{}".format, range(9999)):
        ((at, sign),) = matching.counts(word).items()
        seen[at, sign] = (word, "", "", "")
        if (at, -sign) in seen:
            cases.append(([seen[at, sign]], [seen[at, -sign]]))
            break
    agree = [other_match(*c, fault) == pytest.approx(matching.match(*c)[:2], abs=1e-12) for c in cases]
    assert all(agree) is (not fault)


def other_signals(d, y, x, u, fault):
    """By the greatest convex minorant of the cumulative counts: a cut stays where no chord passes below it."""
    order = np.argsort(d, kind="stable")
    d, y = np.array(d)[order], [0, *np.cumsum(np.array(y)[order]).tolist()]
    cuts = {k * len(d) // (6 - (fault == "five blocks")) for k in range(7)} & {*range(len(d) + 1)}
    cuts = sorted(
        cuts if fault == "ties cut" else {int(np.searchsorted(d, d[c - 1], "right")) if c else 0 for c in cuts}
    )
    found, edge = [], fault == "equal rates merged"
    kept = [
        k
        for k in cuts
        if all((y[k] - y[i]) * (j - k) + edge <= (y[j] - y[k]) * (k - i) for i in cuts for j in cuts if i < k < j)
    ]
    for i, j in itertools.pairwise(cuts if fault == "not merged" else kept):
        found.append((d[i], d[j - 1], j - i, y[j] - y[i]))
    at = min(sum(b[1] < x for b in found), len(found) - 1)
    _, _, n, bad = found[max(0, sum(b[0] <= x for b in found) - 1) if fault == "gap below" else at]
    k = bad / n
    if fault == "interpolated":
        k = float(np.interp(x, [(b[0] + b[1]) / 2 for b in found], [b[3] / b[2] for b in found]))
    z = library.norm.ppf({"95 %": 0.975, "one-sided": 0.9}.get(fault, 0.95))
    w = 2 * z * math.sqrt(bad * (n - bad) / n + z * z / 4) / (n + z * z)
    w = 2 * z * math.sqrt(bad * (n - bad) / n) / n if fault == "Wald" else w / 2 if fault == "half width" else w
    a, b = (x, k) if fault == "blend reversed" else (k, x)
    return k, w, (1 - w) * a + w * b, min(u, w) if fault == "smaller uncertainty" else max(u, w)


@faults(["", *MAP])
def test_risk_map(fault):
    rng, agree = random.Random(2), []
    for _ in range(60):
        d = [rng.randrange(0, 20, 2) / 20 for _ in range(rng.randrange(8, 20))]
        y, x = [rng.random() < v for v in d], rng.randrange(20) / 20
        found = maps.signals(maps.risk_map(d, y), matching.Match(x, 0.4, False))
        agree.append(other_signals(d, y, x, 0.4, fault) == pytest.approx(found, abs=1e-9))
    assert all(agree) is (not fault)


def other_run(xs, p, budget, window, fault):
    safe = unsafe = calls = demand = used = 0
    for i, x in enumerate(xs):
        used *= i % window > 0 or fault == "over all"
        n = window if fault == "full last window" else min(window, len(xs) - i + i % window)
        limit = F(str(budget)) * (len(xs) if fault == "over all" else n)
        limit = round(limit) if fault == "rounded" else int(budget * n) if fault == "float" else math.floor(limit)
        s = x.s - 1e-9 * (fault == "strict")
        tau = p.tau_vc if x.h and fault != "one tau" else p.tau_v
        hit = (not x.h or fault == "conflict reused") and s >= p.tau_r and x.d <= p.delta_r and x.u <= p.upsilon_r
        near = (
            not hit and s >= (min(p) if fault == "looser tau" else tau) and (not x.empty or fault == "empty verified")
        )
        near &= (x.d <= p.delta_v or fault == "d free") and (x.u <= p.upsilon_v or fault == "u free")
        demand += near
        if near and used < limit:
            hit = {"label": x.valid, "not INVALID": x.output != "INVALID"}.get(fault, x.output == "VALID")
            calls, used = calls + 1, used + (hit or fault != "refusals free")
        elif near:
            hit, calls = fault == "exhausted reuses", calls + (fault == "demand called")
        safe, unsafe = safe + (hit and x.valid), unsafe + (hit and not x.valid)
    return len(xs), safe, unsafe, calls, demand


def candidates(rng, n):
    for _ in range(n):
        s, d, u, out = (
            rng.choice((0.6, 0.7, 0.8, 0.9)),
            rng.random(),
            rng.random(),
            rng.choice(("VALID", "INVALID", "no")),
        )
        empty = rng.random() < 0.1
        yield router.Candidate(
            s, 1 if empty else d, 1 if empty else u, rng.random() < 0.3, rng.random() < 0.6, out, u, empty
        )


@faults(["", *RUN])
def test_replay(fault):
    rng, agree = random.Random(5), []
    policies = [p for p in router.grid() if p.upsilon_v < 1 and p.delta_v < 1]
    settings = [(100, None, 0.29), (100, None, 0.07), (40, 7, 0.2), (40, 7, 0.3), (40, None, 1)] * 3
    for n, window, budget in settings:
        xs, p = list(candidates(rng, n)), rng.choice(policies)._replace(tau_r=0.9, delta_r=0.4, upsilon_r=0.6)
        agree.append(other_run(xs, p, budget, window or n, fault) == router.replay(xs, p, budget, window))
    x = router.Candidate(0.9, 1, 1, False, True, "VALID")
    p = router.Policy(0.95, 0.02, 0.3, 0.8, 0.8, 1.0, 1.0)  # admits risk and uncertainty 1, though not without records
    xs = [x._replace(empty=True), *[x] * 99]
    for window, budget in ((100, 0.29), (7, 0.25), (7, 0.3)):
        agree.append(other_run(xs, p, budget, window, fault) == router.replay(xs, p, budget, window))
    assert all(agree) is (not fault)


def other_choice(xs, policies, alpha, fault):
    """By narrowing the list once per criterion."""
    runs = [(router.replay(xs, p, 0.3), p) for p in policies]
    for found, p in list(runs):
        of = found.n if fault == "rate of all" else found.safe + found.unsafe
        over = F(found.unsafe, max(of, 1)) - F(str(alpha))
        if fault != "no filter" and (over > 0 or (fault == "strict alpha" and over == 0)):
            runs.remove((found, p))
    keys = [lambda r: r[0].safe + r[0].unsafe * (fault == "accepted"), lambda r: -r[0].unsafe, lambda r: -r[0].calls]
    for i, sign in enumerate((1, -1, -1, 1, 1, -1, -1)):
        keys.append(lambda r, i=i, sign=sign: r[1][i] * sign * (-1 if fault == "loose" else 1))
    keys = [keys[i] for i in {"calls first": (0, 2, 1), "unsafe first": (1, 0, 2)}.get(fault, (0, 1, 2))] + keys[3:]
    for key in keys[: 3 if fault == "first" else 10]:
        runs = [r for r in runs if key(r) == max(map(key, runs))]
    return runs[0][1] if runs else router.REGENERATE


@faults(["", *CHOICE])
def test_choice(fault):
    rng, agree, every = random.Random(11), [], router.grid()
    for i in range(60):
        xs = [x._replace(d=x.d / 5, u=x.u / 2) for x in candidates(rng, 12)]
        xs = [x._replace(valid=x.valid or rng.random() < 0.6) for x in xs]
        args = (xs, rng.sample(every[:-288], 25) + rng.sample(every[-288:], 5), (0, 0.25, 0.5)[i % 3])
        agree.append(other_choice(*args, fault) == router.choose(*args, 0.3))
    assert all(agree) is (not fault)
    calls = [router.feasible(router.Outcome(10, 5, 0, n, 9), 0, 0.3) for n in (3, 4)]  # hard budgets never get there
    assert calls == [True, False]


def test_bounds():
    """Each oracle against a second version and against the slips next to it."""
    methods = ("wilson", "beta", "normal", "jeffreys")
    ends = {m: [proportion_confint(3, 40, a, m)[1] for a in (0.1, 0.05)] for m in methods}
    widths = [np.subtract(*proportion_confint(3, 40, a, "wilson")[::-1]) for a in (0.1, 0.05, 0.2)]
    d, clusters, binom = np.array([0.01, 0.03, -0.01, 0.02, 0.025]), [(3, 0), (1, 1), (2, 0)], library.binom
    root = d.std(ddof=1) * np.sqrt(1 / 5 + 1 / 4)
    bets = [1 + (0.1 * a - u) / 3 for a, u in clusters]
    losses, ps = [[0] * 10, [1] + [0] * 9, [1, 1] + [0] * 8], [0.03, 0.01, 0.06, 0.02]
    table = [
        (bounds.wilson_upper(3, 40), [*ends["wilson"], ends["normal"][0], ends["beta"][0]]),
        (bounds.exact_upper(3, 40), [*ends["beta"], ends["jeffreys"][0], ends["wilson"][0]]),
        (bounds.wilson_width(3, 40), widths),
        (bounds.binomial_p(3, 40, 0.1), [binom.cdf(3, 40, 0.1), binom.cdf(2, 40, 0.1), binom.sf(3, 40, 0.1)]),
        (bounds.corrected_t(d, 0.25)[0], [d.mean() / root, *(d.mean() / d.std(ddof=k) * 5**0.5 for k in (0, 1))]),
        (bounds.corrected_t(d, 0.25)[1], [library.t.sf(d.mean() / root, k) for k in (4, 5, 1e9)]),
        (bounds.corrected_t(d, 0.25, 0.01)[0], [(d.mean() + k) / root for k in (0.01, -0.01, 0)]),
        (bounds.e_value(clusters, 0.1, 1, 3), [np.prod(bets), np.mean(bets), np.prod(bets[:2]), 1.1**5 * 0.1]),
        (bounds.risk_control(losses, 0.2), [1, 2, 0]),  # (1 + 1) / 11 but not 3 / 11; without the +1: 2 / 10
        (len(bounds.fixed_sequence(ps, 0.05)), [2, 3, 1]),  # stops at the first failure; all below delta; one only
        (len(bounds.fixed_sequence(ps, 0.05, (0, 3))), [1, 3, 2]),  # halves; undivided
        (bounds.two_arm_p([(0, 9), (1, 30)], 0.1), [0.9**9, binom.cdf(1, 30, 0.1), binom.cdf(1, 39, 0.1)]),
    ]
    for oracle, (right, *wrong) in table:
        assert float(oracle) == pytest.approx(right, abs=1e-9)
        assert all(abs(float(oracle) - x) > 1e-4 for x in wrong)
    assert bounds.two_arm_p([], 0) == 0  # nothing is returned
    wrong = [
        (bounds.e_value, [], 0.5, 2, 1),
        (bounds.e_value, [(3, 0)], 0.1, 1, 2),
        (bounds.risk_control, [[1], [0]], 0.5),
    ]
    for oracle, *args in wrong:
        with pytest.raises(ValueError, match=r"bet|m_max|nested"):
            oracle(*args)


def test_verdicts():
    outputs = ["VALID", "INVALID", "UNCERTAIN", "valid", " VALID", "VALID\n", "VALID.", "VALID or not", "", None]
    readers = [str.strip, str.upper, lambda x: x.rstrip("."), lambda x: x[:5], lambda x: x.rsplit("IN")[-1]]
    readers += [lambda x: "VALID" if "VALID" in x else x, lambda x: "VALID" if x not in ("INVALID", "UNCERTAIN") else x]
    assert [verdicts.accepts(x) for x in outputs] == [True] + [False] * 9
    assert [verdicts.reading(x) for x in outputs[2:5] + outputs[-1:]] == [
        "UNCERTAIN",
        "malformed",
        "malformed",
        "failure",
    ]
    assert all(any((read(x) == "VALID") != verdicts.accepts(x) for x in outputs[:-1]) for read in readers)
    values = dict(zip(verdicts.FIELDS, ("a", 'b "é"', "", "d", "e"), strict=True))
    text = '{"q_cache":"a","r_cache":"b \\"é\\"","context_cache":"","q_probe":"d","context_probe":"e"}'
    assert verdicts.is_message(text, values)
    wrong = [text.replace(":", ": "), text.replace('"a"', '"A"'), text.replace('"context_cache":"",', ""), ""]
    wrong.append('{"r_cache":"b \\"é\\"","q_cache":"a",' + text.split(",", 2)[2])
    assert not any(verdicts.is_message(x, values) for x in wrong)
