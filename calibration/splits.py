"""Repeated development, calibration and test subsets that no cluster straddles (paper appendix A)."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from hashlib import sha256
from math import floor
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cachemend.calibration.errors import CalibrationError
from cachemend.calibration.intervals import SEED

N_SPLITS = 20
FRACTIONS = (0.6, 0.2, 0.2)


class Split(NamedTuple):
    """Rows of each subset, ascending, shape ``[rows]``; together they are all rows, each once.

    Attributes:
        dev: fits the risk map and orders policies.
        cal: selects the policy.
        test: is looked at once both are fixed.
    """

    dev: NDArray[np.intp]
    cal: NDArray[np.intp]
    test: NDArray[np.intp]


def repeated_splits(
    clusters: ArrayLike,
    strata: ArrayLike | None = None,
    n_splits: int = N_SPLITS,
    fractions: Sequence[float] = FRACTIONS,
    seed: int = SEED,
    *,
    allow_mixed: bool = False,
) -> list[Split]:
    """Split rows by cluster, within each stratum, `n_splits` times.

    Each split orders the clusters of a stratum by SHA-256 of seed, split, stratum and cluster, and cuts that order
    at the fractions, rounded up or down by a hash as well, so that over splits every subset gets its exact share
    even of a small stratum. A stratum of three clusters or more is in every subset. The result depends on the names
    alone, not on the order of the rows nor on a library's random stream.

    Args:
        clusters: the cluster of each row, shape ``[n]``; compared as text.
        strata: the stratum (source) of each row, shape ``[n]``; None for one stratum.
        n_splits: number of splits.
        fractions: shares of the clusters for dev, cal and test; above 0, sum 1.
        seed: part of every hash.
        allow_mixed: put a cluster with rows of several strata into that of most of its rows (of equals, the first
            by name) instead of refusing it.

    Raises:
        CalibrationError: a cluster in two strata, or too few clusters to fill each subset.
        ValueError: no rows, lengths that differ, no splits, or fractions that are not three shares of 1.
    """
    shares = _shares(fractions)
    if n_splits < 1:
        raise ValueError(f"n_splits {n_splits} is below 1")
    names, cluster_of_row = _codes("clusters", clusters)
    stratum_names, stratum_of_row = _codes("strata", np.zeros(len(cluster_of_row)) if strata is None else strata)
    if len(stratum_of_row) != len(cluster_of_row):
        raise ValueError(f"there are {len(cluster_of_row)} clusters and {len(stratum_of_row)} strata of rows")
    rows = np.zeros((len(names), len(stratum_names)), dtype=np.intp)
    np.add.at(rows, (cluster_of_row, stratum_of_row), 1)
    if not allow_mixed:
        _refuse_mixed(rows, names, stratum_names)
    members = [
        (stratum, [str(name) for name in names[rows.argmax(axis=1) == code]])
        for code, stratum in enumerate(stratum_names)
    ]
    code_of = {str(name): code for code, name in enumerate(names)}
    splits = []
    for number in range(n_splits):
        part = np.empty(len(names), dtype=np.intp)
        for stratum, inside in members:
            for name, where in _assigned(inside, shares, f"{seed}\x1f{number}\x1f{stratum}"):
                part[code_of[name]] = where
        subsets = Split(*(np.flatnonzero(part[cluster_of_row] == where) for where in range(3)))
        for field, found in zip(Split._fields, subsets, strict=True):
            if not found.size:
                raise CalibrationError(
                    f"clusters: {len(names)} are too few, {field} of split {number} got none; give more"
                )
        splits.append(subsets)
    return splits


def _assigned(inside: list[str], shares: tuple[Fraction, Fraction], key: str) -> Iterator[tuple[str, int]]:
    """Yield each cluster of one stratum with the number of its subset."""
    ordered = sorted(inside, key=lambda name: _hash(f"cluster\x1f{key}\x1f{name}"))
    shift = Fraction(int.from_bytes(_hash(f"rounding\x1f{key}")[:8], "big"), 2**64)
    size = len(ordered)
    first, second = (floor(share * size + shift) for share in shares)
    if size >= 3:
        first = min(max(first, 1), size - 2)
        second = min(max(second, first + 1), size - 1)
    for at, name in enumerate(ordered):
        yield name, (at >= first) + (at >= second)


def _shares(fractions: Sequence[float]) -> tuple[Fraction, Fraction]:
    """Return where dev and where cal end, exactly."""
    exact = [Fraction(value).limit_denominator(1_000_000) for value in fractions]
    if len(exact) != 3 or min(exact) <= 0 or sum(exact) != 1:
        raise ValueError(f"fractions {tuple(fractions)} are not three shares above 0 with sum 1")
    return exact[0], exact[0] + exact[1]


def _codes(name: str, labels: ArrayLike) -> tuple[NDArray[np.str_], NDArray[np.intp]]:
    array = np.asarray(labels)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} has shape {array.shape}; it must be one-dimensional and not empty")
    names, codes = np.unique(array.astype(str), return_inverse=True)
    return names, codes


def _refuse_mixed(rows: NDArray[np.intp], names: NDArray[np.str_], strata: NDArray[np.str_]) -> None:
    mixed = np.flatnonzero((rows > 0).sum(axis=1) > 1)
    if mixed.size:
        found = ", ".join(repr(str(name)) for name in strata[rows[mixed[0]] > 0])
        raise CalibrationError(
            f"cluster {str(names[mixed[0]])!r} has rows in the strata {found}; a cluster belongs to one"
        )


def _hash(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogatepass")).digest()
