"""The three parts of a labelled log: one fits the risk map, one selects the policy, one is looked at last."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cachemend.calibration.routing import RiskMap, RoutingScores, canonical_order, routing_scores
from cachemend.calibration.splits import Split, repeated_splits
from cachemend.datasets.pair import Pair
from cachemend.flows.calibrate_measuring import Measured
from cachemend.repair_core.errors import InputError

NAMES = {"dev": "development", "cal": "calibration", "test": "test"}
_FEWEST_CLUSTERS = 3


class Part(NamedTuple):
    """Pairs of one part, all of shape ``[n]``.

    Attributes:
        ids, clusters: of the pairs.
        valid: whether returning the cached response was right.
        verified: the verifier said exactly VALID.
        scores: what a policy decides on.
        order: the order in which they are replayed.
    """

    ids: NDArray[np.str_]
    clusters: NDArray[np.str_]
    valid: NDArray[np.bool_]
    verified: NDArray[np.bool_]
    scores: RoutingScores
    order: NDArray[np.intp]


class Parts(NamedTuple):
    """The parts, the risk map of the first, and the scores of all pairs by it."""

    dev: Part
    cal: Part
    test: Part
    risk_map: RiskMap
    scores: RoutingScores


def split_pairs(pairs: Sequence[Pair], seed: int) -> Split:
    """Split pairs 60/20/20 by cluster.

    Raises:
        InputError: too few clusters, or a part for fitting or selecting with labels of one kind only.
    """
    clusters = [pair.cluster for pair in pairs]
    if len(set(clusters)) < _FEWEST_CLUSTERS:
        raise InputError(
            f"the log's labelled rows make {len(set(clusters))} clusters; a split needs at least {_FEWEST_CLUSTERS}, "
            "and hundreds to say much"
        )
    split = repeated_splits(clusters, None, 1, seed=seed)[0]
    for name in ("dev", "cal"):
        labels = [pairs[at].label for at in getattr(split, name)]
        if len(set(labels)) < 2:
            raise InputError(
                f"the {NAMES[name]} part has {labels.count(1)} valid and {labels.count(0)} invalid pairs; "
                "it needs both kinds: label rows of more clusters"
            )
    return split


def make_parts(
    pairs: Sequence[Pair], measured: Measured, verified: NDArray[np.bool_], split: Split, seed: int
) -> Parts:
    """Fit the risk map on the development part and score all pairs."""
    valid = np.array([pair.label == 1 for pair in pairs])
    risk_map = RiskMap.fit(measured.signals.d_match[split.dev], valid[split.dev])
    scores = routing_scores(measured.similarity, measured.signals, risk_map)
    ids, clusters = (np.array([getattr(pair, name) for pair in pairs]) for name in ("pair_id", "cluster"))

    def part(rows: NDArray[np.intp]) -> Part:
        order = canonical_order(ids[rows].tolist(), seed)
        return Part(ids[rows], clusters[rows], valid[rows], verified[rows], scores.take(rows), order)

    return Parts(part(split.dev), part(split.cal), part(split.test), risk_map, scores)
