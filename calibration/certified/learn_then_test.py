"""Learn-then-Test: exact binomial tests on one hit of each cluster (Angelopoulos et al. 2021)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom

from cachemend.calibration.certified.certification import Certification, conclude
from cachemend.calibration.certified.hits import check_hits, policy_flags
from cachemend.calibration.certified.levels import check_levels
from cachemend.calibration.certified.sampling import first_of_clusters, hash_order
from cachemend.calibration.intervals import SEED

DELTA = 0.05


def binomial_p(invalid: ArrayLike, hits: ArrayLike, alpha: float) -> NDArray[np.float64]:
    """Return the exact p-value of "the risk is above alpha": ``P(Binomial(hits, alpha) <= invalid)``; 1 without hits.

    Args:
        invalid, hits: counts on independent pairs, any common shape.
        alpha: the risk.
    """
    p: NDArray[np.float64] = binom.cdf(invalid, hits, alpha)
    return p


def certify_by_binomial_tests(
    accepted: ArrayLike,
    verified: ArrayLike,
    valid: ArrayLike,
    clusters: ArrayLike,
    pair_ids: ArrayLike,
    *,
    alpha: float,
    delta: float = DELTA,
    regions: ArrayLike | None = None,
    starts: Sequence[int] = (0,),
    seed: int = SEED,
) -> Certification:
    """Certify policies whose direct hits, and whose verified hits, each have a risk of at most `alpha`.

    The risk of a kind of hit is the probability that it is invalid, of a hit drawn at random from a cluster drawn at
    random among those that have any: every cluster weighs the same. One hit of each cluster makes the trials
    independent, given which clusters have one; the first in the order of a seeded hash is taken, for each kind its
    own. A policy is certified when the hypotheses of too high a risk are rejected for both kinds, so its p-value is
    the larger, and no part of `delta` is spent on there being two. A verifier budget leaves the tests exact where the
    order of requests does not depend on labels.

    Args:
        accepted: whether each policy returned the cached response, shape ``[policies, pairs]``; the policies in an
            order that was fixed without the calibration pairs, see `order_on_dev`.
        verified: whether it did so, or refused, after the verifier; direct hits are accepted and not verified.
        valid: whether the response may be returned, shape ``[pairs]``.
        clusters: the cluster of each pair.
        pair_ids: unique, and blind to labels: they decide which hits are taken.
        alpha: the risk; 0 abstains.
        delta: probability of certifying any policy above `alpha`.
        regions: whether each policy reuses directly and whether it verifies, by its thresholds, shape
            ``[policies, 2]``; a kind of hit that is switched off needs no test. None for both everywhere.
        starts: places in the order where a sequence of tests begins; `delta` is divided among them.
        seed: part of the hashes.

    Raises:
        ValueError: shapes that do not fit, values other than 0 and 1, a hit of a kind that is switched off, a policy
            with both kinds off, or levels out of range.
    """
    check_levels(alpha, delta)
    hits = check_hits(accepted, valid, clusters)
    through_verifier = policy_flags("verified", verified, len(hits.valid))
    if through_verifier.shape != hits.accepted.shape:
        raise ValueError(f"accepted and verified have shapes {hits.accepted.shape} and {through_verifier.shape}")
    kinds = np.stack([hits.accepted & ~through_verifier, hits.accepted & through_verifier], axis=1)
    on = _regions(regions, kinds)
    drawn = first_of_clusters(kinds, hits.clusters, hash_order(clusters, pair_ids, seed))
    n = (drawn >= 0).sum(axis=2)
    invalid = ((drawn >= 0) & ~hits.valid[drawn]).sum(axis=2)
    p = np.where(on, binomial_p(invalid, n, alpha), 0.0).max(axis=1)

    def evidence(policy: int) -> str:
        of_direct, of_verified = (f"{k} invalid of {m}" for k, m in zip(invalid[policy], n[policy], strict=True))
        return f"{of_direct} direct and {of_verified} verified hits, one of a cluster, of {hits.n_clusters} clusters"

    return conclude(p, hits, alpha=alpha, delta=delta, starts=starts, evidence=evidence)


def _regions(regions: ArrayLike | None, kinds: NDArray[np.bool_]) -> NDArray[np.bool_]:
    if regions is None:
        return np.ones(kinds.shape[:2], dtype=bool)
    on = np.asarray(regions, dtype=bool)
    if on.shape != kinds.shape[:2]:
        raise ValueError(f"regions has shape {on.shape}; it must be [{len(kinds)} policies, 2]")
    if not on.any(axis=1).all():
        raise ValueError(f"policy {int(np.flatnonzero(~on.any(axis=1))[0])} neither reuses directly nor verifies")
    if (kinds.any(axis=2) & ~on).any():
        raise ValueError(f"policy {int(np.argwhere(kinds.any(axis=2) & ~on)[0, 0])} has hits of a kind switched off")
    return on
