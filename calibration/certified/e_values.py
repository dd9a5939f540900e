"""Bets on whole clusters: e-values that use every pair (testing by betting, Waudby-Smith and Ramdas 2024)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cachemend.calibration.certified.certification import Certification, conclude
from cachemend.calibration.certified.hits import Hits, check_hits
from cachemend.calibration.certified.learn_then_test import DELTA
from cachemend.calibration.certified.levels import check_levels
from cachemend.calibration.certified.sampling import pairs_per_cluster
from cachemend.calibration.intervals import SEED

MAX_PAIRS = 4
_SHARES = np.arange(100) / 100


def hit_table(hits: NDArray[np.integer], invalid: NDArray[np.integer], most: int) -> NDArray[np.int64]:
    """Count clusters by their hits and invalid hits, shape ``[rows, most + 1, most + 1]``.

    Args:
        hits, invalid: of each cluster, shape ``[rows, clusters]``; at most `most`.
        most: the largest number of pairs a cluster may have.
    """
    side = most + 1
    cell = (np.arange(len(hits))[:, None] * side + hits) * side + invalid
    return np.bincount(cell.ravel(), minlength=len(hits) * side * side).reshape(-1, side, side)


def log_e_values(table: NDArray[np.int64], bets: NDArray[np.float64], alpha: float) -> NDArray[np.float64]:
    """Return ``log prod_c (1 + bet * Z_c)`` with ``Z_c = (alpha * hits - invalid) / most``, shape ``[rows, bets]``.

    ``Z_c`` is at least ``alpha - 1``, and its mean is at most 0 where invalid hits are `alpha` of the hits or more.

    Args:
        table: from `hit_table`.
        bets: in ``[0, 1 / (1 - alpha))``, shape ``[rows, bets]``, or ``[1, bets]`` for the same of each row.
        alpha: the risk.
    """
    most = table.shape[-1] - 1
    hits, invalid = np.tril_indices(most + 1)
    gains = (alpha * hits - invalid) / most
    total: NDArray[np.float64] = np.einsum("rc,rbc->rb", table[:, hits, invalid], np.log1p(bets[..., None] * gains))
    return total


def best_bets(table: NDArray[np.int64], alpha: float) -> NDArray[np.float64]:
    """Return the bet of each row, of a hundred in ``[0, 1 / (1 - alpha))``, whose e-value grows most; shape ``[rows]``.

    One invalid hit is added: without an error on dev the largest bet would win, and lose nearly everything at the
    first error on calibration.

    Args:
        table: of development clusters, from `hit_table`.
        alpha: the risk.
    """
    bets = _SHARES / (1 - alpha)
    with_error = table.copy()
    with_error[:, 1, 1] += 1
    found: NDArray[np.float64] = bets[log_e_values(with_error, bets[None], alpha).argmax(axis=1)]
    return found


def bet_on_dev(
    accepted: ArrayLike,
    valid: ArrayLike,
    clusters: ArrayLike,
    pair_ids: ArrayLike,
    *,
    alpha: float,
    max_pairs: int = MAX_PAIRS,
    seed: int = SEED,
) -> NDArray[np.float64]:
    """Fix each policy's bet on the development subset, shape ``[policies]``; 0 where nothing speaks for the policy.

    Args and errors are those of `certify_by_e_values`.
    """
    check_levels(alpha, DELTA)
    return best_bets(_table(check_hits(accepted, valid, clusters), clusters, pair_ids, max_pairs, seed), alpha)


def certify_by_e_values(
    accepted: ArrayLike,
    valid: ArrayLike,
    clusters: ArrayLike,
    pair_ids: ArrayLike,
    *,
    alpha: float,
    bets: ArrayLike,
    delta: float = DELTA,
    max_pairs: int = MAX_PAIRS,
    starts: Sequence[int] = (0,),
    seed: int = SEED,
) -> Certification:
    """Certify policies by ``E = prod_c (1 + bet * Z_c) >= 1 / delta``; the p-value of each is ``min(1, 1/E)``.

    The risk is expected invalid hits over expected hits of a cluster truncated to `max_pairs` pairs, direct and
    verified together: a larger cluster counts for no more than that, however often its pairs are requested. Clusters
    are independent, pairs within one need not be: if that risk is above `alpha` the mean of E is at most 1.

    Args:
        accepted: whether each policy returned the cached response, shape ``[policies, pairs]``; the policies in an
            order that was fixed without the calibration pairs, see `order_on_dev`.
        valid: whether it may be returned, shape ``[pairs]``.
        clusters: the cluster of each pair.
        pair_ids: unique.
        alpha: the risk; 0 abstains.
        bets: one per policy, in ``[0, 1 / (1 - alpha))``, fixed without the calibration pairs; see `bet_on_dev`.
        delta: probability of certifying any policy above `alpha`.
        max_pairs: pairs of a cluster that count; of a larger one as many are taken by a seeded hash. The largest
            cluster sets the scale of all bets, so that one large cluster would make every bet small.
        starts: places in the order where a sequence of tests begins; `delta` is divided among them.
        seed: part of the hashes.

    Raises:
        ValueError: shapes that do not fit, values other than 0 and 1, a bet or a level out of range.
    """
    check_levels(alpha, delta)
    stakes = np.asarray(bets, dtype=np.float64)
    hits = check_hits(accepted, valid, clusters)
    if stakes.shape != (len(hits.accepted),):
        raise ValueError(f"bets has shape {stakes.shape}; give one for each of the {len(hits.accepted)} policies")
    if not ((stakes >= 0) & (stakes < 1 / (1 - alpha))).all():
        raise ValueError(f"a bet is outside 0 to {1 / (1 - alpha):.6g}, the end excluded")
    table = _table(hits, clusters, pair_ids, max_pairs, seed)
    p = np.exp(np.minimum(-log_e_values(table, stakes[:, None], alpha)[:, 0], 0.0))

    def evidence(policy: int) -> str:
        return f"bet {stakes[policy]:.3g} on {hits.n_clusters} clusters"

    return conclude(p, hits, alpha=alpha, delta=delta, starts=starts, evidence=evidence)


def _table(hits: Hits, clusters: ArrayLike, pair_ids: ArrayLike, most: int, seed: int) -> NDArray[np.int64]:
    rows = pairs_per_cluster(clusters, pair_ids, most, seed)
    counted = Hits(hits.accepted[:, rows], hits.valid[rows], hits.clusters[rows])
    n, invalid = counted.per_cluster(counted.accepted), counted.per_cluster(counted.accepted & ~counted.valid)
    return hit_table(n, invalid, most)
