"""The test subsets of all splits laid end to end: exposures, as arrays."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cachemend.calibration.holdout_test import SplitRates, split_rates
from cachemend.calibration.routing.outcome import relative_cost
from cachemend.calibration.splits import Split
from cachemend.tasks.routing.pool import RoutedPool
from cachemend.tasks.routing.replaying import Series


class Exposures(NamedTuple):
    """The exposures that all methods share, shape ``[exposures]``.

    Attributes:
        rows: place of each in the pool.
        split: number of its split.
        valid: its label.
        clusters: its cluster.
        n_train, n_test: clusters of each split, shape ``[splits]``.
    """

    rows: NDArray[np.intp]
    split: NDArray[np.intp]
    valid: NDArray[np.bool_]
    clusters: NDArray[Any]
    n_train: NDArray[np.int64]
    n_test: NDArray[np.int64]

    @classmethod
    def of(cls, pool: RoutedPool, splits: Sequence[Split]) -> "Exposures":
        """The test subsets of `splits`."""
        rows = np.concatenate([split.test for split in splits])
        number = np.repeat(np.arange(len(splits)), [len(split.test) for split in splits])
        names = pool.clusters.astype(str)
        counts = [
            (len(np.unique(names[np.r_[split.dev, split.cal]])), len(np.unique(names[split.test]))) for split in splits
        ]
        train, test = np.array(counts).T
        return cls(rows, number, pool.valid[rows], names[rows], train, test)

    def per_split(self, flag: NDArray[np.bool_]) -> NDArray[np.int64]:
        """How often a flag is set in each split, shape ``[splits]``."""
        return np.bincount(self.split[flag], minlength=len(self.n_test))


class Counts(NamedTuple):
    """What a method did with all exposures.

    Attributes:
        accepted, verified: bool, shape ``[exposures]``.
        rates: rates of each split.
        verifier_rate, cost, demand_rate: means over the splits.
    """

    accepted: NDArray[np.bool_]
    verified: NDArray[np.bool_]
    rates: SplitRates
    verifier_rate: float
    cost: float
    demand_rate: float

    @classmethod
    def of(cls, series: Series, exposures: Exposures) -> "Counts":
        """Lay the splits of a method end to end."""
        accepted = np.concatenate([served.accepted for served in series.served])
        verified = np.concatenate([served.verified for served in series.served])
        n = exposures.per_split(np.ones(len(accepted), dtype=bool))
        hits = exposures.per_split(accepted)
        rates = split_rates(
            exposures.per_split(accepted & exposures.valid), exposures.per_split(accepted & ~exposures.valid), n
        )
        calls = exposures.per_split(verified) / n
        local = series.local_cost
        cost = [relative_cost(call, 1 - hit / m, local) for call, hit, m in zip(calls, hits, n, strict=True)]
        demand = np.array([served.demand for served in series.served]) / n
        return cls(accepted, verified, rates, float(calls.mean()), float(np.mean(cost)), float(demand.mean()))

    def columns(self, exposures: Exposures) -> dict[str, Any]:
        """The count and rate columns that several tables share."""
        return {
            "n_splits": len(exposures.n_test),
            "exposures": len(exposures.rows),
            "accepted": int(self.accepted.sum()),
            "n_valid": int((self.accepted & exposures.valid).sum()),
            "n_invalid": int((self.accepted & ~exposures.valid).sum()),
            "n_verified": int(self.verified.sum()),
        }

    @property
    def macro(self) -> dict[str, float]:
        """Mean rates over the splits."""
        return {"vchr": float(self.rates.vchr.mean()), "fh": float(self.rates.fh.mean())}
