"""The hits of many policies on one set of pairs."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cachemend.calibration.arrays import check_lengths, flags


class Hits(NamedTuple):
    """Checked arrays: `accepted` bool ``[policies, pairs]``; `valid` bool and `clusters` codes from 0, ``[pairs]``."""

    accepted: NDArray[np.bool_]
    valid: NDArray[np.bool_]
    clusters: NDArray[np.intp]

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return int(self.clusters.max()) + 1

    def per_cluster(self, values: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Sum 0/1 of ``[policies, pairs]`` over the pairs of each cluster, shape ``[policies, clusters]``."""
        order = np.argsort(self.clusters, kind="stable")
        starts = np.searchsorted(self.clusters[order], np.arange(self.n_clusters))
        return np.add.reduceat(values[:, order], starts, axis=1, dtype=np.int64)


def check_hits(accepted: ArrayLike, valid: ArrayLike, clusters: ArrayLike) -> Hits:
    """Check the hits of policies.

    Args:
        accepted: whether each policy returned the cached response of each pair, shape ``[policies, pairs]``.
        valid: whether it may be returned, shape ``[pairs]``.
        clusters: the cluster of each pair.

    Raises:
        ValueError: no policies or pairs, shapes that do not fit, or values that are not 0 and 1.
    """
    good, names = flags("valid", valid), np.asarray(clusters)
    check_lengths(valid=good, clusters=names)
    hit = policy_flags("accepted", accepted, len(good))
    return Hits(hit, good, np.unique(names, return_inverse=True)[1])


def policy_flags(name: str, values: ArrayLike, n_pairs: int) -> NDArray[np.bool_]:
    """Return 0/1 values of policies as booleans, shape ``[policies, pairs]``.

    Raises:
        ValueError: another shape, no policies, or values that are not 0 and 1.
    """
    array = np.asarray(values)
    if array.ndim != 2 or array.shape[0] == 0 or array.shape[1] != n_pairs:
        raise ValueError(f"{name} has shape {array.shape}; it must be [policies, {n_pairs} pairs]")
    return flags(name, array.ravel()).reshape(array.shape)
