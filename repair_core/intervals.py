"""Selected positions as maximal intervals, and the operation counts of a selection."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cachemend.repair_core.errors import InputError

Positions = npt.NDArray[np.int64]


class Interval(NamedTuple):
    """A half-open range of positions."""

    start: int
    stop: int


def whole_positions(positions: npt.ArrayLike) -> Positions:
    """Return `positions` of any shape as int64.

    Raises:
        InputError: they are no whole numbers, or rows of unequal lengths.
    """
    try:
        array = np.asarray(positions)
    except ValueError as error:
        raise InputError(f"positions must be whole numbers in rows of equal lengths: {error}") from error
    if array.size and array.dtype.kind not in "iu":
        first = int(np.argmax(array % 1 != 0)) if array.dtype.kind == "f" else 0
        raise InputError(f"positions hold {array.ravel().tolist()[first]!r}; give the whole numbers of tokens")
    return array.astype(np.int64)


def check_positions(positions: Sequence[int] | npt.NDArray[np.integer], length: int) -> Positions:
    """Return `positions` as a sorted int64 array.

    Raises:
        InputError: not whole numbers, not sorted, not unique, or outside 0..length-1.
    """
    array = whole_positions(positions).reshape(-1)
    if array.size:
        if (np.diff(array) <= 0).any():
            raise InputError("positions must be sorted and unique")
        if array[0] < 0 or array[-1] >= length:
            raise InputError(f"positions run from {array[0]} to {array[-1]}; the context has rows 0 to {length - 1}")
    return array


def maximal_intervals(positions: Sequence[int] | npt.NDArray[np.integer]) -> tuple[Interval, ...]:
    """Coalesce sorted unique positions into maximal half-open intervals (Algorithm 1, line 9)."""
    array = np.asarray(positions, dtype=np.int64)
    if array.size == 0:
        return ()
    breaks = np.flatnonzero(np.diff(array) > 1) + 1
    return tuple(Interval(int(run[0]), int(run[-1]) + 1) for run in np.split(array, breaks))


def token_layers(positions: Sequence[int] | npt.NDArray[np.integer], n_layers: int) -> int:
    """Token-layer updates L*B of a selection (Eq. 15)."""
    return len(positions) * n_layers


def causal_pairs(positions: Sequence[int] | npt.NDArray[np.integer]) -> int:
    """Query-key pairs M(U) = sum(u + 1) per head and layer (section 13.2)."""
    array = np.asarray(positions, dtype=np.int64)
    return int((array + 1).sum())
