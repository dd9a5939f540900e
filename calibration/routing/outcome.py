"""What a replay came to: hit rates, verifier rate and relative cost (paper sections 4.1 and appendix K)."""

from typing import NamedTuple

from numpy.typing import ArrayLike

from cachemend.calibration.errors import CalibrationError
from cachemend.calibration.routing.replay import Replay, flags

VERIFIER_COST = 0.0605
"""Cost of a verifier call, with a regeneration as 1 (paper equation 12)."""

LOCAL_COST = 1.450e-4 + 3.634e-3
"""Cost of extraction, matching and routing per request, with a regeneration as 1 (paper Table 3)."""


class Outcome(NamedTuple):
    """A policy on n labelled candidates; rates are fractions.

    Attributes:
        n: candidates.
        accepted: cached responses returned; where it is 0, `fh` is 0 by convention.
        valid: those whose reuse is valid.
        invalid: those whose reuse is not.
        vchr: valid cache-hit rate, ``valid / n``.
        fh: false-hit rate, ``invalid / accepted``.
        verifier_rate: verifier calls per candidate.
        relative_cost: per request, with regenerating every response as 1.
    """

    n: int
    accepted: int
    valid: int
    invalid: int
    vchr: float
    fh: float
    verifier_rate: float
    relative_cost: float


def outcome(replayed: Replay, valid: ArrayLike, *, local_cost: float = LOCAL_COST) -> Outcome:
    """Score a replay.

    Args:
        replayed: of n candidates.
        valid: whether reuse is valid, bool ``[n]``.
        local_cost: what the method itself costs per request, with a regeneration as 1.

    Raises:
        CalibrationError: no candidates.
        ValueError: labels that are not n booleans.
    """
    n = len(replayed.accepted)
    if n == 0:
        raise CalibrationError("the replay has no candidates; there is no rate to report")
    good = flags("valid", valid, n)
    accepted = int(replayed.accepted.sum())
    hits = int((replayed.accepted & good).sum())
    verifier_rate = int(replayed.verified.sum()) / n
    return Outcome(
        n=n,
        accepted=accepted,
        valid=hits,
        invalid=accepted - hits,
        vchr=hits / n,
        fh=(accepted - hits) / max(accepted, 1),
        verifier_rate=verifier_rate,
        relative_cost=relative_cost(verifier_rate, (n - accepted) / n, local_cost),
    )


def relative_cost(verifier_rate: float, backend_rate: float, local_cost: float = LOCAL_COST) -> float:
    """Return ``C = C_local + r_verify * 0.0605 + r_backend`` (paper equation 12); rates are fractions."""
    return local_cost + verifier_rate * VERIFIER_COST + backend_rate
