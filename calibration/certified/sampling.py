"""A seeded choice of pairs within clusters, blind to labels and to scores."""

from hashlib import sha256

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cachemend.calibration.intervals import SEED


def pairs_per_cluster(clusters: ArrayLike, pair_ids: ArrayLike, most: int = 1, seed: int = SEED) -> NDArray[np.intp]:
    """Return the rows of at most `most` pairs of each cluster, ascending.

    The pairs of the smallest SHA-256 of seed, cluster and pair id are taken: the choice depends on the names alone,
    not on the order of the rows.

    Args:
        clusters: the cluster of each row, shape ``[n]``; compared as text.
        pair_ids: the pair of each row, unique.
        most: pairs to take of a cluster.
        seed: part of every hash.

    Raises:
        ValueError: lengths that differ, a pair given twice, or `most` below 1.
    """
    if most < 1:
        raise ValueError(f"most {most} is below 1")
    names = [str(name) for name in np.asarray(clusters)]
    taken: dict[str, int] = {}
    rows = []
    for row in hash_order(clusters, pair_ids, seed).tolist():
        taken[names[row]] = taken.get(names[row], 0) + 1
        if taken[names[row]] <= most:
            rows.append(row)
    return np.array(sorted(rows), dtype=np.intp)


def first_of_clusters(
    flags: NDArray[np.bool_], clusters: NDArray[np.intp], order: NDArray[np.intp]
) -> NDArray[np.intp]:
    """Return the first flagged row of every cluster in `order`, -1 where it has none; shape ``[..., clusters]``.

    Args:
        flags: of rows, shape ``[..., n]``.
        clusters: the cluster of each row, codes from 0 without gaps.
        order: all rows, see `hash_order`.
    """
    n = len(order)
    grouped = order[np.argsort(clusters[order], kind="stable")]
    starts = np.searchsorted(clusters[grouped], np.arange(int(clusters.max()) + 1))
    places = np.where(flags[..., grouped], np.arange(n), n)
    first = np.minimum.reduceat(places, starts, axis=-1)
    found: NDArray[np.intp] = np.where(first < n, grouped[np.minimum(first, n - 1)], -1)
    return found


def hash_order(clusters: ArrayLike, pair_ids: ArrayLike, seed: int = SEED) -> NDArray[np.intp]:
    """Return all rows by the SHA-256 of seed, cluster and pair id; arguments and errors as of `pairs_per_cluster`."""
    names = [str(name) for name in np.asarray(clusters)]
    ids = [str(name) for name in np.asarray(pair_ids)]
    if len(names) != len(ids):
        raise ValueError(f"there are {len(names)} clusters and {len(ids)} pair ids of rows")
    if len(set(ids)) != len(ids):
        raise ValueError("a pair id is given twice; each row must be a pair of its own")
    hashes = [
        sha256(f"{seed}\x1f{name}\x1f{pair}".encode("utf-8", "surrogatepass")).digest()
        for name, pair in zip(names, ids, strict=True)
    ]
    return np.array(sorted(range(len(ids)), key=hashes.__getitem__), dtype=np.intp)
