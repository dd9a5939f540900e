"""The three-way router and its selection, paper "Beyond Query Similarity", equations (4) to (9), (12) and section 4.3.

A policy without a region holds infinite thresholds for it, the strictest there are.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

from oracles.routing_bounds import Number, exact
from oracles.routing_verdicts import accepts, window_grants

INF = math.inf
ABLATIONS = ("conflict", "matching uncertainty", "uncertainty routing", "conflict threshold", "risk filter")


class Candidate(NamedTuple):
    """Similarity, risk, uncertainty, conflict, label, verifier's output; u_cal; whether one side has no record."""

    s: float
    d: float
    u: float
    h: bool
    valid: bool
    output: object
    u_cal: float = 0.0
    empty: bool = False


class Policy(NamedTuple):
    """Thresholds; tau_vc is that of candidates with a conflict."""

    tau_r: float
    delta_r: float
    upsilon_r: float
    tau_v: float
    tau_vc: float
    delta_v: float
    upsilon_v: float


class Outcome(NamedTuple):
    """Counts of a replay; demand: candidates of the verification region, whether called or not."""

    n: int
    safe: int
    unsafe: int
    calls: int
    demand: int


NO_DIRECT, NO_VERIFY = (INF, -INF, -INF), (INF, INF, -INF, -INF)
REGENERATE = Policy(*NO_DIRECT, *NO_VERIFY)


def grid() -> list[Policy]:
    """Return the 16,192 full policies, then 96 that never verify and 192 that never reuse directly."""
    three = ((0.70, 0.80, 0.85, 0.90, 0.95, 0.98), (0.02, 0.05, 0.10, 0.20), (0.3, 0.5, 0.7, 0.9))
    limits = ((0.5, 0.6, 0.7, 0.8), (0.8, 0.9, 0.95, 0.98), (0.3, 0.5, 0.7, 1.0), (0.8, 0.95, 1.0))
    direct = list(itertools.product(*three))
    verify = [v for v in itertools.product(*limits) if v[1] >= v[0]]
    full = [Policy(*r, *v) for r in direct for v in verify if v[0] <= r[0] and v[2] >= r[1] and v[3] >= r[2]]
    return full + [Policy(*r, *NO_VERIFY) for r in direct] + [Policy(*NO_DIRECT, *v) for v in verify]


def route(x: Candidate, policy: Policy, without: str = "") -> str:
    """Return "reuse", "verify" or "regenerate" before the budget; without: the component taken out."""
    if x.empty:
        return "regenerate"
    conflict = x.h and without != "conflict"
    u = x.u_cal if without == "matching uncertainty" else x.u
    free = without == "uncertainty routing"
    if not conflict and x.s >= policy.tau_r and x.d <= policy.delta_r and (free or u <= policy.upsilon_r):
        return "reuse"
    tau = policy.tau_vc if conflict and without != "conflict threshold" else policy.tau_v
    if x.s >= tau and x.d <= policy.delta_v and (free or u <= policy.upsilon_v):
        return "verify"
    return "regenerate"


def tally(xs: Sequence[Candidate], routes: Sequence[str], granted: Sequence[bool], called: str = "verify") -> Outcome:
    """Count equation (7); called: what the candidates that got a call do, "reuse" or "regenerate" without one."""
    hits, calls = [], 0
    for x, action, call in zip(xs, routes, granted, strict=True):
        if action == "verify":
            action = called if call else "regenerate"
        calls += action == "verify"
        if action == "reuse" or (action == "verify" and accepts(x.output)):
            hits.append(x.valid)
    return Outcome(len(xs), sum(hits), len(hits) - sum(hits), calls, sum(r == "verify" for r in routes))


def replay(
    xs: Sequence[Candidate], policy: Policy, budget: Number, window: int | None = None, without: str = ""
) -> Outcome:
    """Route the candidates in order under the hard budget."""
    routes = [route(x, policy, without) for x in xs]
    return tally(xs, routes, window_grants([r == "verify" for r in routes], budget, window))


def feasible(found: Outcome, alpha: Number, budget: Number, without: str = "") -> bool:
    """Tell whether equation (8) holds, exactly."""
    safe_enough = found.unsafe <= exact(alpha) * max(found.safe + found.unsafe, 1)
    return (safe_enough or without == "risk filter") and found.calls <= exact(budget) * found.n


def preference(policy: Policy, found: Outcome) -> tuple[float, ...]:
    """Return equation (9) with the tie-breaks behind it; the largest is chosen."""
    ties = (policy.tau_r, -policy.delta_r, -policy.upsilon_r, policy.tau_v, policy.tau_vc, -policy.delta_v)
    return (found.safe, -found.unsafe, -found.calls, *ties, -policy.upsilon_v)


def choose(
    xs: Sequence[Candidate],
    policies: Iterable[Policy],
    alpha: Number,
    budget: Number,
    window: int | None = None,
    without: str = "",
) -> Policy:
    """Return the policy of equation (9), the one that regenerates everything where none is feasible."""
    runs = [(policy, replay(xs, policy, budget, window, without)) for policy in policies]
    kept = [run for run in runs if feasible(run[1], alpha, budget, without)]
    return max(kept, key=lambda run: preference(*run))[0] if kept else REGENERATE


def vchr(found: Outcome) -> Fraction:
    """Return the share of candidates answered by a valid cached response."""
    return Fraction(found.safe, found.n)


def false_hits(found: Outcome) -> Fraction:
    """Return the unsafe share of the cached responses returned; 0 without one."""
    return Fraction(found.unsafe, max(found.safe + found.unsafe, 1))


def cost(local: Number, verify_rate: Number, backend_rate: Number, ratio: Number = "0.0605") -> Fraction:
    """Return equation (12)."""
    return exact(local) + exact(verify_rate) * exact(ratio) + exact(backend_rate)
