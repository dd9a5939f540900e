"""Choice of a policy on the calibration subset (paper equations 8 and 9)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from cachemend.calibration.errors import CalibrationError
from cachemend.calibration.routing.budget import Window
from cachemend.calibration.routing.counting import count_policies
from cachemend.calibration.routing.exact import Rate, exact_rate, whole_part
from cachemend.calibration.routing.grid import DEFAULT_GRID, PolicyGrid
from cachemend.calibration.routing.policy import REGENERATE_ALL, Thresholds
from cachemend.calibration.routing.replay import flags, permutation
from cachemend.calibration.routing.scores import RoutingScores


class Selection(NamedTuple):
    """The chosen policy and what it did on the calibration subset.

    Attributes:
        thresholds: the policy; `REGENERATE_ALL` where none is feasible.
        n: candidates it was chosen on.
        valid: cached responses returned whose reuse is valid.
        invalid: cached responses returned whose reuse is invalid.
        calls: verifier calls made.
        demand: verifier calls there would have been without a budget.
        policies: policies tried.
        feasible: those that kept to alpha and B; 0 where everything is regenerated because none did.
    """

    thresholds: Thresholds
    n: int
    valid: int
    invalid: int
    calls: int
    demand: int
    policies: int
    feasible: int


def select_policy(
    scores: RoutingScores,
    valid: ArrayLike,
    verdicts: ArrayLike,
    *,
    alpha: Rate,
    budget: Rate,
    order: ArrayLike,
    grid: PolicyGrid | None = None,
    window: Window | None = None,
) -> Selection:
    """Choose the policy with the most valid hits among those that keep to `alpha`.

    A policy is feasible where ``invalid / max(valid + invalid, 1) <= alpha`` after the replay under the hard budget;
    the replay itself keeps the verifier rate at or below B. Among feasible policies: more valid hits, then fewer
    invalid hits, then fewer verifier calls, then the stricter policy in the order of `PolicyGrid.allowed`. `alpha`
    is an empirical target on this subset, not a guarantee for later requests.

    Args:
        scores: of n candidates; their risk map was fitted on others.
        valid: whether reuse is valid, bool ``[n]``.
        verdicts: whether the verifier said exactly VALID, bool ``[n]``; the verdicts that a later replay would use.
        alpha: greatest accepted-unsafe rate.
        budget: verifier calls per candidate, B.
        order: a permutation of ``0 .. n - 1``: the request order of the replay.
        grid: the policies; None for the default grid.
        window: as for `replay`; use the same later.

    Raises:
        CalibrationError: no candidates, candidates all valid or all invalid, or a rate outside 0 to 1.
        ValueError: lengths that differ, labels or verdicts that are not bool, or an order that is none.
    """
    n = len(scores.similarity)
    good, says_valid, places = flags("valid", valid, n), flags("verdicts", verdicts, n), permutation(order, n)
    if good.all() or not good.any():
        raise CalibrationError(
            f"the calibration subset has {good.sum()} valid and {n - good.sum()} invalid pairs; it needs both kinds"
        )
    policies = DEFAULT_GRID if grid is None else grid
    counts = count_policies(scores, good, says_valid, grid=policies, budget=budget, order=places, window=window)
    target = exact_rate("alpha", alpha)
    # By number of accepted responses, so that the comparison is one of whole numbers.
    most_invalid = np.array([whole_part(target, accepted) for accepted in range(n + 1)])
    feasible = policies.allowed & (counts.invalid <= most_invalid[counts.valid + counts.invalid])
    chosen = np.flatnonzero(feasible)
    if not chosen.size:
        return Selection(REGENERATE_ALL, n, 0, 0, 0, 0, len(policies), 0)
    for worth in (-counts.valid, counts.invalid, counts.calls):
        values = worth.ravel()[chosen]
        chosen = chosen[values == values.min()]
    a, b = divmod(int(chosen[0]), feasible.shape[1])
    done = {name: int(count[a, b]) for name, count in counts._asdict().items()}
    return Selection(policies.policy(a, b), n, **done, policies=len(policies), feasible=int(feasible.sum()))
