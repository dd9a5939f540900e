"""The regions of direct reuse and of verification (paper equations 4 to 6)."""

import numpy as np
from numpy.typing import NDArray

from cachemend.calibration.routing.policy import Thresholds
from cachemend.calibration.routing.scores import RoutingScores

REGENERATE, REUSE, VERIFY = 0, 1, 2

Mask = NDArray[np.bool_]
Limit = float | NDArray[np.float64]


def route(scores: RoutingScores, thresholds: Thresholds) -> NDArray[np.int8]:
    """Return what the policy would do with each candidate if the verifier budget were unlimited.

    Returns:
        `REGENERATE`, `REUSE` or `VERIFY`, shape ``[n]``. A score that is not a number passes no threshold.
    """
    reuse = may_reuse(scores, *thresholds[:3])
    verify = may_verify(scores, *thresholds[3:]) & ~reuse
    return np.where(reuse, REUSE, np.where(verify, VERIFY, REGENERATE)).astype(np.int8)


def may_reuse(scores: RoutingScores, tau_r: Limit, delta_r: Limit, upsilon_r: Limit) -> Mask:
    """The region of direct reuse, R (equation 4), shape ``[n]``; thresholds of shape ``[k, 1]`` give ``[k, n]``."""
    return ~(scores.h | scores.empty) & _within(scores, tau_r, delta_r, upsilon_r)


def may_verify(scores: RoutingScores, tau_v: Limit, tau_v_conflict: Limit, delta_v: Limit, upsilon_v: Limit) -> Mask:
    """The region of verification, V (equations 5 and 6), before R is taken out of it; shapes as in `may_reuse`."""
    return ~scores.empty & _within(scores, np.where(scores.h, tau_v_conflict, tau_v), delta_v, upsilon_v)


def _within(scores: RoutingScores, tau: Limit, delta: Limit, upsilon: Limit) -> Mask:
    return (scores.similarity >= tau) & (scores.d <= delta) & (scores.u <= upsilon)
