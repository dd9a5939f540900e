"""What a policy decides on: similarity, calibrated risk, uncertainty and conflict (paper equation 11)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cachemend.calibration.errors import CalibrationError
from cachemend.calibration.routing.risk_map import RiskMap

if TYPE_CHECKING:
    from cachemend.calibration.conditions.signals import CandidateSignals


class RoutingScores(NamedTuple):
    """The scores of n candidates, all of shape ``[n]``.

    Attributes:
        similarity: cosine of the two requests, S.
        d: routing risk, D, from 0 to 1.
        u: uncertainty, U, from 0 to 1.
        h: an explicit conflict, H; bool.
        u_cal: the part of `u` that comes from the risk map.
        empty: a side has no condition record: regenerated whatever the thresholds; bool.
    """

    similarity: NDArray[np.float64]
    d: NDArray[np.float64]
    u: NDArray[np.float64]
    h: NDArray[np.bool_]
    u_cal: NDArray[np.float64]
    empty: NDArray[np.bool_]

    def take(self, index: NDArray[np.intp]) -> RoutingScores:
        """The candidates at `index`, in its order."""
        return RoutingScores(**{name: column[index] for name, column in self._asdict().items()})


def routing_scores(
    similarity: ArrayLike, signals: CandidateSignals, risk_map: RiskMap, *, own_guards: bool = True
) -> RoutingScores:
    """Combine signals and risk map: ``D = (1 - U_cal) K + U_cal D_match`` and ``U = max(U_match, U_cal)``.

    Where a side has no condition record, ``D = U = 1`` (paper appendix B, "Edge cases").

    Args:
        similarity: cosine of cached and new request, shape ``[n]``.
        signals: of the same candidates.
        risk_map: fitted on other candidates.
        own_guards: whether the guards that the paper does not have (negation, number, role swap) count as conflicts.

    Raises:
        CalibrationError: a similarity that is not a cosine.
        ValueError: lengths that differ.
    """
    s = np.asarray(similarity, dtype=np.float64)
    if s.shape != signals.d_match.shape:
        raise ValueError(f"similarity has shape {s.shape} and the signals {signals.d_match.shape}; they must be equal")
    outside = np.flatnonzero(~(np.abs(s) <= 1 + 1e-6))
    if outside.size:
        raise CalibrationError(f"similarity {s[outside[0]]} of candidate {outside[0]} is no cosine from -1 to 1")
    risk = risk_map.predict(signals.d_match)
    empty = (signals.n_cache == 0) | (signals.n_request == 0)
    d = (1 - risk.u_cal) * risk.rate + risk.u_cal * signals.d_match
    u = np.maximum(signals.u_match, risk.u_cal)
    h = signals.h_rule | signals.h_ctx
    return RoutingScores(
        similarity=s,
        d=np.where(empty, 1.0, d),
        u=np.where(empty, 1.0, u),
        h=h | signals.h_own if own_guards else h,
        u_cal=np.where(empty, 1.0, risk.u_cal),
        empty=empty,
    )
