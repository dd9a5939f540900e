"""Adversarial requests against policies and baselines that were calibrated on ordinary pairs (paper, Table 4)."""

from typing import Any

import numpy as np

from cachemend.calibration.bounds import exact_upper
from cachemend.calibration.routing.risk_map import RiskMap
from cachemend.calibration.routing.scores import routing_scores
from cachemend.calibration.routing.selection import select_policy
from cachemend.calibration.splits import Split
from cachemend.tasks.routing.pool import RoutedPool
from cachemend.tasks.routing.replaying import POINTS, SAFECACHE, measured_baselines, played


def stress_rows(
    calibrated_on: RoutedPool, split: Split, stress: RoutedPool, *, own_guards: bool
) -> list[dict[str, Any]]:
    """Columns of `routing_stress_rows`: every hit is unsafe, since each input wants another tool than the cached one.

    Args:
        calibrated_on: an ordinary pool.
        split: of it; gives the risk map, the policies and the baselines' cutoffs.
        stress: the adversarial inputs.
        own_guards: whether this project's further guards count as conflicts.
    """
    dev, cal = calibrated_on.take(split.dev), calibrated_on.take(split.cal)
    risk_map = RiskMap.fit(dev.signals.d_match, dev.valid)
    cal_scores, scores = (
        routing_scores(part.columns["similarity"], part.signals, risk_map, own_guards=own_guards)
        for part in (cal, stress)
    )
    rows = []
    for point in POINTS:
        chosen = select_policy(
            cal_scores, cal.valid, cal.verified, alpha=point.alpha, budget=point.budget, order=cal.order()
        )
        done = played(stress, scores, chosen.thresholds, point.budget)
        rows.append(_row(SAFECACHE, point.setting, done.accepted, done.verified))
    for each in measured_baselines(calibrated_on):
        found = each.fit(cal.evidence(), cal.valid)(stress.evidence())
        rows.append(_row(each.method, each.setting, found.accepted, found.verifier_called))
    return rows


def _row(method: str, setting: str, accepted: Any, verified: Any) -> dict[str, Any]:
    n, hits = len(accepted), int(np.sum(accepted))
    return {
        "method": method,
        "setting": setting,
        "n": n,
        "n_hits": hits,
        "n_verified": int(np.sum(verified)),
        "hit_rate": hits / n,
        "upper": exact_upper(hits, n),
    }
