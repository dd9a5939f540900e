"""What a certified selection returns, whichever test is behind it."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cachemend.calibration.certified.fixed_sequence import fixed_sequence
from cachemend.calibration.certified.hits import Hits


class Certification(NamedTuple):
    """Policies whose risk is at most `alpha`, all of them at once with confidence ``1 - delta``.

    Attributes:
        alpha, delta: the risk certified and the probability of certifying any policy above it.
        certified: numbers of the policies certified, ascending.
        chosen: of these the one with most valid hits on calibration, then fewest invalid hits, then the earliest;
            None for an abstention: regenerate everything.
        reason: why nothing was certified, in a sentence; "" otherwise.
        p: p-value of each policy, shape ``[policies]``.
        n_clusters: independent units behind them.
    """

    alpha: float
    delta: float
    certified: tuple[int, ...]
    chosen: int | None
    reason: str
    p: NDArray[np.float64]
    n_clusters: int


def conclude(
    p: NDArray[np.float64],
    hits: Hits,
    *,
    alpha: float,
    delta: float,
    starts: Sequence[int],
    evidence: Callable[[int], str],
) -> Certification:
    """Test the policies in their order and choose among those certified.

    Args:
        p: p-value of each policy.
        hits: all calibration pairs, for the choice; any choice among certified policies keeps the guarantee.
        alpha, delta: risk and error level.
        starts: where sequences of tests begin.
        evidence: what the p-value of a policy rests on, in words, for the reason of an abstention.
    """
    certified = np.flatnonzero(fixed_sequence(p, delta, starts))
    if certified.size:
        accepted = hits.accepted[certified]
        right, wrong = (accepted & hits.valid).sum(axis=1), (accepted & ~hits.valid).sum(axis=1)
        chosen, reason = int(certified[np.lexsort((certified, wrong, -right))[0]]), ""
    else:
        chosen, reason = None, _reason(p, alpha, delta, starts, evidence)
    return Certification(alpha, delta, tuple(int(at) for at in certified), chosen, reason, p, hits.n_clusters)


def _reason(
    p: NDArray[np.float64], alpha: float, delta: float, starts: Sequence[int], evidence: Callable[[int], str]
) -> str:
    if alpha == 0:
        return "alpha = 0 can never be certified: no number of error-free hits excludes a risk above 0"
    first = min(starts, key=lambda start: p[start])
    return (
        f"no policy is certified at alpha = {100 * alpha:g} %: the first test nearest to passing, of policy {first} "
        f"({evidence(first)}), has p = {p[first]:.3g}, above {delta / len(starts):.3g}"
    )
