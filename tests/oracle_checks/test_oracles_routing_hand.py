"""The router's parts against cases worked out by hand and the published counts."""

import math
from fractions import Fraction as F

import pytest
from scipy import stats as library

from oracles import routing_bounds as bounds
from oracles import routing_map as maps
from oracles import routing_matching as matching
from oracles import routing_policy as router
from oracles import routing_verdicts as verdicts
from oracles.routing_policy import Candidate, Outcome, Policy

ACCEPTED = [4968, 5478, 5579, 7473, 6755, 6016, 5588, 5335, 5279, 6626, 6101, 5471, 7126, 2890, 2901, 67]  # Table 11
VALID = [4959, 5457, 5555, 5897, 5690, 5391, 5248, 5235, 5235, 5789, 5553, 5248, 5813, 2581, 2607, 65]
INVALID = [9, 21, 24, 1576, 1065, 625, 340, 100, 44, 837, 548, 223, 1313, 309, 294, 2]
ONE = Policy(0.9, 0.1, 0.5, 0.7, 0.8, 0.5, 0.95)
X = Candidate(0.9, 0.1, 0.5, False, True, "VALID", 0.4)


def test_hashing():
    known = {b"": 0, b"foo": -156908512, b"hello": 0x248BFA47, b"hello, world": 0x149BBB7F}
    assert [matching.murmur3(data) for data in known] == list(known.values())
    assert matching.serialise((" State ", "Auth  x", "IS", "")) == "state auth x is"
    assert matching.grams("id #a:1/b-c.d, é_2!") == ["id", "#a:1/b-c.d", "é_2", "id #a:1/b-c.d", "#a:1/b-c.d é_2"]
    assert sorted(map(abs, matching.unit("foo foo").values())) == pytest.approx([1 / math.sqrt(5), 2 / math.sqrt(5)])
    assert (matching.unit("! ?"), matching.similarity("! ?", "! ?")) == ({}, 0)


def test_matching():
    granted, denied, public = (tuple(x.split()) for x in ("state auth is granted", "state auth is denied", "x y is z"))
    # Seven grams each: five shared with the denial, one with the third.
    assert matching.match([granted], [denied, public]) == pytest.approx((2 / 7, 3 / 7, False))  # 1 - (5 - 1) / 7
    assert matching.match([granted], [denied]) == pytest.approx((2 / 7, 2 / 7, False))
    assert matching.match([denied], [granted, denied]) == pytest.approx((0, 5 / 7, False))
    assert [matching.match(*x) for x in (([], [denied]), ([denied], []), ([], []))] == [(1, 1, True)] * 3
    with pytest.raises(ValueError, match="repeat"):
        matching.match([denied, denied], [denied])


def test_risk_map():
    d = [0.05, 0.10, 0.15, 0.15, 0.15, 0.20, 0.25, 0.30, 0.35, 0.40, 0.45, 0.50]
    y = [0, 0, 1, 0, 0, 0, 0, 1, 1, 0, 1, 1]
    # Ties: blocks of 2, 3, 1, 2, 2, 2 with rates 0, 1/3, 0, 1/2, 1/2, 1; the second and third merge.
    blocks = maps.risk_map(d[::-1], y[::-1])
    want = [(0.05, 0.1, 2, 0), (0.15, 0.2, 4, 1), (0.25, 0.3, 2, 1), (0.35, 0.4, 2, 1), (0.45, 0.5, 2, 2)]
    assert blocks == want
    places = {0: 0, 0.1: 0, 0.12: 1, 0.18: 1, 0.2: 1, 0.22: 2, 0.32: 3, 0.5: 4, 0.9: 4}
    assert [want.index(maps.block_of(blocks, x)) for x in places] == list(places.values())
    z2 = 1.6448536269514722**2
    width = 2 * math.sqrt(z2 * (4 * 3 / 16 + z2 / 4)) / (4 + z2)
    found = maps.signals(blocks, matching.Match(0.18, 0.3, False))
    assert found == pytest.approx((0.25, width, (1 - width) * 0.25 + width * 0.18, width))
    low = z2 / (2 + z2)  # none of two
    assert maps.signals(blocks, matching.Match(0.01, 0.7, False)) == pytest.approx((0, low, 0.01 * low, 0.7))
    assert maps.signals(blocks, matching.Match(1, 1, True))[2:] == (1, 1)
    assert [len(maps.risk_map(x, [0] * 4)) for x in ([5] * 4, [1, 2, 3, 4])] == [1, 4]  # equal rates stay apart
    rates = [[(3, 2), (3, 3), (3, 0)], [(2, 1), (2, 2), (2, 0)]]  # 3/6 < 2/3 merges on; 2/4 = 1/2 does not
    merged = [[b[2:] for b in maps.pooled([maps.Block(i, i, *r) for i, r in enumerate(row)])] for row in rates]
    assert merged == [[(9, 5)], [(2, 1), (4, 2)]]
    assert maps.brier([0.25, 0.5], [0, 1]) == (1 / 16 + 1 / 4) / 2
    predicted, y = [0.2, 0.2, 0.8, 1.0], [1, 0, 0, 1]  # (0.6 + 0.8 + 0) / 4; 0.2 / 4; (0.6 + 0.8) / 4
    assert [maps.ece(predicted, y, bins) for bins in (None, 1, 2)] == pytest.approx([0.35, 0.05, 0.35])


def test_routes():
    cases = [({}, "reuse"), ({"s": 0.89}, "verify"), ({"d": 0.11}, "verify"), ({"u": 0.51}, "verify")]
    cases += [({"h": True}, "verify"), ({"h": True, "s": 0.8}, "verify"), ({"h": True, "s": 0.79}, "regenerate")]
    cases += [({"s": 0.7}, "verify"), ({"s": 0.69}, "regenerate"), ({"d": 0.5}, "verify"), ({"d": 0.51}, "regenerate")]
    cases += [({"u": 0.95}, "verify"), ({"u": 0.96}, "regenerate"), ({"empty": True}, "regenerate")]
    assert [router.route(X._replace(**change), ONE) for change, _ in cases] == [action for _, action in cases]
    out = [({"h": True}, "conflict", "reuse"), ({"h": True, "s": 0.75}, "conflict", "verify")]
    out += [({"u": 0.51}, "matching uncertainty", "reuse"), ({"u_cal": 0.6}, "matching uncertainty", "verify")]
    out += [({"u": 1}, "uncertainty routing", "reuse"), ({"u": 1, "s": 0.7}, "uncertainty routing", "verify")]
    out += [({"h": True, "s": 0.7}, "conflict threshold", "verify"), ({"s": 0.89}, "risk filter", "verify")]
    assert [router.route(X._replace(**change), ONE, part) for change, part, _ in out] == [a for *_, a in out]
    assert {part for _, part, _ in out} == set(router.ABLATIONS)
    never = [(X._replace(empty=True, u_cal=0), ONE), (X._replace(s=1, d=0, u=0), router.REGENERATE)]
    assert {router.route(*case, part) for case in never for part in ("", *router.ABLATIONS)} == {"regenerate"}


def test_budget():
    assert sum(verdicts.window_grants([True] * 100, 0.29)) == 29  # 0.29 * 100 is 28.99... in floating point
    assert verdicts.window_grants([True] * 10, 0.3, 4) == [i in (0, 4) for i in range(10)]  # floors 1, 1 and 0
    assert verdicts.window_grants([False, True, True, False, True], 0.4) == [False, True, True, False, False]
    assert verdicts.bucket_grants([True] * 6, 0.5, 1) == [False, True] * 3
    assert verdicts.bucket_grants([True] * 6, 0.5, 2, 2) == [True, True, True, False, True, False]
    run = [X, X._replace(valid=False)] + [X._replace(s=0.8, valid=v, output=o) for v, o in ((0, "VALID"), (1, "no"))]
    run.append(X._replace(s=0.8))  # the third that would be verified
    assert [router.replay(run, ONE, b) for b in (0.4, 0.6)] == [Outcome(5, 1, 2, 2, 3), Outcome(5, 2, 2, 3, 3)]


def test_choice():
    sizes = [len({p for p in router.grid() if test(p)}) for test in (lambda p: p.tau_r < 2 > p.tau_v, bool)]
    assert (sizes, sum(p.tau_v == math.inf for p in router.grid())) == ([16192, 16192 + 96 + 192], 96)
    stricter = Policy(0.95, 0.05, 0.3, 0.75, 0.85, 0.4, 0.9)
    for i, name in enumerate(Policy._fields):  # nothing is returned: every later field is worse, this one better
        worse = [2 * v - w for v, w in zip(ONE[i + 1 :], stricter[i + 1 :], strict=True)]
        better = Policy(*ONE[:i], stricter[i], *worse)
        assert [router.choose([X._replace(s=0)], o, 0, 0) for o in ([ONE, better], [better, ONE])] == [better] * 2, name
    loose, run = ONE._replace(tau_r=0.8), [X] * 38 + [X._replace(s=0.8), X._replace(s=0.8, valid=False, output="no")]
    # loose returns 39 valid and 1 invalid; ONE, with one call, 39 and none; with no call, 38.
    assert [router.choose(run, [ONE, loose], a, b) for a, b in ((0.025, 0.025), (0.024, 0.025))] == [ONE, ONE]
    assert [router.choose(run, [ONE, loose], a, 0) for a in (0.025, 0.024)] == [loose, ONE]
    assert [router.choose(run, [loose], 0.024, 0, None, w) for w in ("", "risk filter")] == [router.REGENERATE, loose]
    assert router.choose([X] * 3, [ONE._replace(tau_r=2), ONE], 0, 1) == ONE  # three calls against none
    rates = [(router.vchr(x), router.false_hits(x)) for x in (Outcome(8, 3, 1, 0, 0), Outcome(8, 0, 0, 0, 0))]
    assert rates == [(F(3, 8), F(1, 4)), (0, 0)]


def test_bounds():
    half = math.sqrt(1 / 12)
    assert [bounds.wilson(*x, 1) for x in ((0, 0), (1, 2))] == [(0, 1), pytest.approx((0.5 - half, 0.5 + half))]
    upper = [1 - 0.05 ** (1 / 58), 1, library.beta.ppf(0.95, 10, 4959)]
    assert [bounds.exact_upper(*x) for x in ((0, 58), (3, 3), (9, 4968))] == pytest.approx(upper, abs=1e-12)
    assert bounds.binomial_p(1, 3, 0.5) == F(1, 2)
    assert [bounds.two_arm_p([(0, 2), arm], 0.1) for arm in ((0, 3), (0, 0))] == [F(81, 100), 1]
    found = [bounds.fixed_sequence([0.01, 0.04, 0.2, 0.01], 0.05, s) for s in ((0,), (0, 2), (0, 3), (1,))]
    assert found == [[0, 1], [0], [0, 3], [1]]
    assert bounds.e_value([(2, 0), (1, 1)], 0.1, 1, 2) == F(11, 10) * F(55, 100)
    assert [bounds.e_rejects(F(20), 0.05, j) for j in (1, 2)] == [True, False]
    family = [[i < k for i in range(9)] for k in (0, 1, 2)]
    assert [bounds.risk_control([list(map(int, row)) for row in family], a) for a in (0.3, 0.2, 0.09)] == [2, 1, None]
    t, three = 2 / math.sqrt(1 / 3 + 1 / 4), bounds.corrected_t([1, 2, 3], 0.25)
    assert bounds.corrected_t([-1, 0, 1], 0.25, margin=2) == three == (t, pytest.approx(library.t.sf(t, 2)))
    tails = [(t, df) for t in (-1.5, 0, 0.3, 4.9) for df in (1, 2, 3, 4, 19)]
    assert [bounds.t_upper_tail(*x) for x in tails] == pytest.approx([library.t.sf(*x) for x in tails], abs=1e-14)


def test_published_counts():
    upper = [100 * bounds.wilson_upper(k, n) for k, n in zip(INVALID[:3], ACCEPTED[:3], strict=True)]
    assert [round(x, 4) for x in upper] == [0.3111, 0.5473, 0.6003]
    assert [v + i for v, i in zip(VALID, INVALID, strict=True)] == ACCEPTED
    assert (len(ACCEPTED), 1818 + 41 + 9 + 43) == (16, 1911)
    assert f"{100 * float(verdicts.agreement(1818, 41, 9, 43)):.2f}" == "97.28"
    # Safety-first, pooled: 4968 - 1827 direct hits, all valid; 1911 calls; the rest is regenerated.
    y, no, far = X._replace(s=0.8), X._replace(s=0.8, output="INVALID"), X._replace(s=0)
    run = [X] * 3141 + [y] * 1818 + [y._replace(valid=False)] * 9 + [no] * 43 + [no._replace(valid=False)] * 41
    run += [far] * (13911 - len(run))
    full, routes = router.replay(run, ONE, 0.16), [router.route(x, ONE) for x in run]
    none, every = (router.tally(run, routes, [r == "verify" for r in routes], x) for x in ("regenerate", "reuse"))
    assert (full[1:], none[1:], every[1:]) == ((4959, 9, 1911, 1911), (3141, 0, 0, 1911), (5002, 50, 0, 1911))
    gains = [router.vchr(full) - router.vchr(none), router.vchr(every) - router.vchr(full)]
    gains += [router.false_hits(every) - router.false_hits(full)]  # 1818 and 43 of 13911; 50/5052 - 9/4968
    assert [round(100 * float(x), 4) for x in gains] == [13.0688, 0.3091, 0.8085]
    assert f"{float(router.cost('0.003779', F(1113, 100000) / F('0.0605'), '0.597')):.4f}" == "0.6119"
    assert f"{float(router.cost('0.0038', '0.1397', 1 - F('0.36371') / (1 - F('0.00177')))):.3f}" == "0.648"
