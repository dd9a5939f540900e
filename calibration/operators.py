"""Where causal effects lie (edit paper, "Transplant Recoverability Does Not Imply Recompute Repairability")."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cachemend.calibration.intervals import finite_values


class EffectMass(NamedTuple):
    """Where the positive causal effects of one item lie.

    Attributes:
        carrier, block: share inside the carrier of the answer and inside the edited block. They may overlap: next
            to the edit the block holds the carrier. NaN when no effect is positive.
        total: sum of the positive effects, in the unit of the margin.
    """

    carrier: float
    block: float
    total: float


class Depth(NamedTuple):
    """Ranks that a ranking gives to some positions, 1 for its first; quartiles interpolate linearly."""

    n: int
    lower_quartile: float
    median: float
    upper_quartile: float
    deepest: int


def effect_mass(
    effects: ArrayLike, positions: ArrayLike, carrier: tuple[int, int], block: tuple[int, int]
) -> EffectMass:
    """Return the shares of the positive effect mass inside the carrier and inside the edited block.

    Args:
        effects: causal effect of each position, shape ``[m]``; negative ones count as 0.
        positions: where in the edited context they are, shape ``[m]``.
        carrier, block: half-open ranges ``(start, stop)`` of the same context.

    Raises:
        ValueError: no effects, lengths that differ, an effect that is not finite, a position given twice, or a
            range that ends before it starts.
    """
    mass = np.maximum(finite_values("effects", effects), 0.0)
    where = _positions("positions", positions)
    if len(where) != len(mass):
        raise ValueError(f"{len(mass)} effects of {len(where)} positions; each position has one")
    total = float(mass.sum())
    shares = {}
    for name, (start, stop) in (("carrier", carrier), ("block", block)):
        if stop < start:
            raise ValueError(f"{name} ends at {stop}, before its start {start}")
        inside = float(mass[(where >= start) & (where < stop)].sum())
        shares[name] = inside / total if total > 0 else float("nan")
    return EffectMass(shares["carrier"], shares["block"], total)


def depth(ranking: ArrayLike, wanted: ArrayLike) -> Depth:
    """Return how deep `wanted` positions lie in a ranking: within K they would fit a budget of K.

    Args:
        ranking: positions, best first, shape ``[m]``.
        wanted: the positions looked for, such as those of the causal oracle.

    Raises:
        ValueError: a position given twice, none wanted, or one that the ranking lacks.
    """
    ranked, sought = _positions("ranking", ranking), _positions("wanted", wanted)
    missing = np.setdiff1d(sought, ranked)
    if len(missing):
        raise ValueError(f"the ranking of {len(ranked)} positions lacks position {missing[0]}")
    ranks = np.flatnonzero(np.isin(ranked, sought)) + 1
    lower, median, upper = (float(q) for q in np.percentile(ranks, [25, 50, 75]))
    return Depth(len(ranks), lower, median, upper, int(ranks[-1]))


def _positions(name: str, values: ArrayLike) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.ndim != 1 or array.size == 0 or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"{name} has shape {array.shape} of {array.dtype}; give whole positions in one dimension")
    if len(np.unique(array)) != len(array):
        raise ValueError(f"{name} holds a position twice")
    return array.astype(np.int64)
