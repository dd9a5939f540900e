"""Frozen policies with one thing exchanged at test: the fate of verified candidates, or who gives verdicts.

Nothing is reselected (paper section 4.5 and appendix D, Figure 2 and Table 8).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cachemend.calibration.routing.outcome import LOCAL_COST
from cachemend.calibration.splits import Split
from cachemend.tasks.routing.pool import RoutedPool
from cachemend.tasks.routing.replaying import POINTS, SAFECACHE, Point, Series, Served, played, routed, split_scores
from cachemend.tasks.routing.stacked import Counts, Exposures

SELECTED = "as selected"
REUSED, REGENERATED = "verified candidates reused", "verified candidates regenerated"


def frozen_rows(
    pool: RoutedPool,
    splits: Sequence[Split],
    exposures: Exposures,
    others: Mapping[str, NDArray[np.bool_]],
    point: Point = POINTS[0],
    *,
    own_guards: bool,
) -> list[dict[str, Any]]:
    """Columns of `routing_frozen_rows`.

    Args:
        pool: the pool, with the verdicts that policies are selected by.
        splits, exposures: of it.
        others: further verdicts by their verifier's name: whether it says exactly VALID, bool, shape ``[pairs]``.
        point: the operating point; the safety-first one, as in the paper.
        own_guards: whether this project's further guards count as conflicts.
    """
    names = (SELECTED, REUSED, REGENERATED, *(f"verdicts of {name}" for name in others))
    made = {name: Series(method=SAFECACHE, setting=point.setting, point=point, local_cost=LOCAL_COST) for name in names}
    for split in splits:
        at = split_scores(pool, split, own_guards=own_guards)
        chosen, done = routed(at, point)
        served = {
            SELECTED: done,
            # Only candidates that got a call change; those that found the budget used up stay regenerated.
            REUSED: done._replace(accepted=done.accepted | done.verified, verified=np.zeros_like(done.verified)),
            REGENERATED: done._replace(accepted=done.accepted & ~done.verified, verified=np.zeros_like(done.verified)),
        }
        for name, verified in others.items():
            test = at.test.with_verdicts(verified[split.test])
            served[f"verdicts of {name}"] = played(test, at.test_scores, chosen.thresholds, point.budget)
        for name, each in served.items():
            made[name].served.append(Served(*each))
    counts = {name: Counts.of(series, exposures) for name, series in made.items()}
    base = counts[SELECTED].macro
    return [
        {
            "exchanged": name,
            "setting": point.setting,
            **each.columns(exposures),
            **each.macro,
            "d_vchr": each.macro["vchr"] - base["vchr"],
            "d_fh": each.macro["fh"] - base["fh"],
        }
        for name, each in counts.items()
    ]
