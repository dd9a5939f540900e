"""Policies against each other on common items (edit paper, "Pre-specified held-out evaluation")."""

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import wilcoxon

from cachemend.calibration.intervals import bootstrap_mean, finite_values
from cachemend.calibration.paired import holm

PRIMARY_BAND = 0.05
BANDS = (PRIMARY_BAND, 0.01, 0.10)


class Tally(NamedTuple):
    """Items won, tied and lost; a tie is a difference of at most `band` either way."""

    band: float
    wins: int
    ties: int
    losses: int


class Contrast(NamedTuple):
    """The paired difference of two arms.

    Attributes:
        n: number of items.
        difference, low, high: mean of ``a - b`` with its 95 % percentile bootstrap interval over items.
        p: two-sided Wilcoxon signed-rank test; items without a difference keep their ranks (Pratt), and 1 when
            no item differs.
        tallies: one per band of `BANDS`, the primary one first.
    """

    n: int
    difference: float
    low: float
    high: float
    p: float
    tallies: tuple[Tally, ...]

    @property
    def primary(self) -> Tally:
        """Items won, tied and lost at the primary band."""
        return self.tallies[0]


class PairContrast(NamedTuple):
    """One pair of a family of tests.

    Attributes:
        a, b: names of the arms; a positive difference favours `a`.
        contrast: their paired difference.
        p_holm: its p-value after Holm's correction over the family.
        family_size: number of pairs that were corrected together.
    """

    a: str
    b: str
    contrast: Contrast
    p_holm: float
    family_size: int


def contrast(a: ArrayLike, b: ArrayLike) -> Contrast:
    """Compare two arms item by item; the order of the items does not matter.

    Args:
        a, b: values of both arms, shape ``[n]``, the same item at the same place.

    Raises:
        ValueError: no items, lengths that differ, or a value that is not finite.
    """
    left, right = finite_values("a", a), finite_values("b", b)
    if len(left) != len(right):
        raise ValueError(f"a has {len(left)} values and b has {len(right)}; pairs need equal lengths")
    # Sorted, so that equal items in another order draw the same replicates.
    difference = np.sort(left - right)
    interval = bootstrap_mean(difference)
    return Contrast(
        n=interval.n,
        difference=interval.point,
        low=interval.low,
        high=interval.high,
        p=_signed_rank_p(difference),
        tallies=tuple(_tally(difference, band) for band in BANDS),
    )


def all_pairs(values: Mapping[str, ArrayLike]) -> list[PairContrast]:
    """Compare every pair of arms; all pairs are one family (15 for six policies).

    Args:
        values: the values of each arm on common items, shape ``[n]`` each; the earlier arm of a pair is `a`.

    Raises:
        ValueError: fewer than two arms, numbers of items that differ, or a value that is not finite.
    """
    if len(values) < 2:
        raise ValueError(f"{len(values)} arms make no pair; give at least two")
    return chosen_pairs(values, combinations(values, 2))


def chosen_pairs(values: Mapping[str, ArrayLike], pairs: Iterable[tuple[str, str]]) -> list[PairContrast]:
    """Compare the pairs named, which are one family (four per distance of the distance-controlled variant).

    Args:
        values: as for `all_pairs`; arms that no pair names are not looked at.
        pairs: names ``(a, b)``, in the order of the result.

    Raises:
        ValueError: an unknown arm, a pair given twice or of an arm with itself, and as for `all_pairs`.
    """
    family = list(pairs)
    _check_family(values, family)
    arms = {name: _arm(name, values[name]) for pair in family for name in pair}
    sizes = {name: len(arm) for name, arm in arms.items()}
    if len(set(sizes.values())) > 1:
        raise ValueError(f"arms must share their items; numbers of items are {sizes}")
    found = [contrast(arms[a], arms[b]) for a, b in family]
    adjusted = holm([each.p for each in found])
    return [
        PairContrast(a, b, each, float(p), len(family)) for (a, b), each, p in zip(family, found, adjusted, strict=True)
    ]


def _check_family(values: Mapping[str, ArrayLike], family: list[tuple[str, str]]) -> None:
    seen = set()
    for a, b in family:
        for name in (a, b):
            if name not in values:
                raise ValueError(f"no values for {name!r}; known: {', '.join(values)}")
        if a == b:
            raise ValueError(f"{a!r} cannot be compared with itself")
        if frozenset((a, b)) in seen:
            raise ValueError(f"the pair {a!r}, {b!r} is given twice; a family holds each test once")
        seen.add(frozenset((a, b)))


def _arm(name: str, values: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim == 1 and not (finite := np.isfinite(array)).all():
        where = int(np.flatnonzero(~finite)[0])
        raise ValueError(f"{name!r} is {array[where]} at item {where}; pairs need a finite value of every item")
    return finite_values(repr(name), array)


def _signed_rank_p(difference: NDArray[np.float64]) -> float:
    if not difference.any():
        return 1.0
    return float(wilcoxon(difference, zero_method="pratt").pvalue)


def _tally(difference: NDArray[np.float64], band: float) -> Tally:
    wins, losses = int((difference > band).sum()), int((difference < -band).sum())
    return Tally(band, wins, len(difference) - wins - losses, losses)
