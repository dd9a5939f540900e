"""Operating points, bounds on held-out risk, tests against every comparator, families (paper, Tables 1, 7, 10-12)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from cachemend.calibration.baselines.vcache_online import LEAST_COMPARISONS
from cachemend.calibration.bounds import exact_upper
from cachemend.calibration.cluster_tests import cluster_bootstrap, label_swap
from cachemend.calibration.holdout_test import NON_INFERIORITY, choose_claim, joint_holdout_test
from cachemend.calibration.paired import holm
from cachemend.calibration.pooled_counts import at_prevalence, pooled_risk
from cachemend.tasks.routing.pool import RoutedPool
from cachemend.tasks.routing.replaying import POINTS, SAFECACHE, Series
from cachemend.tasks.routing.stacked import Counts, Exposures

REFERENCE = POINTS[-1].setting
"""The utility-oriented point, which the paper compares with every method (appendix G)."""

_MARGIN = 0.01


class Measured(NamedTuple):
    """A method with its counts."""

    series: Series
    counts: Counts

    @property
    def named(self) -> dict[str, str]:
        """Its columns of identity."""
        return {"method": self.series.method, "setting": self.series.setting}


def point_rows(measured: Sequence[Measured], exposures: Exposures) -> list[dict[str, Any]]:
    """Columns of `routing_point_rows`, one row per method and setting."""
    rows = []
    nothing = np.zeros(len(exposures.rows), dtype=bool)
    for each in measured:
        point, counts = each.series.point, each.counts
        spread = cluster_bootstrap(counts.accepted, nothing, exposures.valid, exposures.clusters)
        rows.append(
            {
                **each.named,
                "alpha": None if point is None else float(point.alpha),
                "verifier_budget": None if point is None else float(point.budget),
                **counts.columns(exposures),
                **counts.macro,
                "vchr_low": spread.vchr.low,
                "vchr_high": spread.vchr.high,
                "fh_low": spread.fh.low,
                "fh_high": spread.fh.high,
                "verifier_rate": counts.verifier_rate,
                "demand_rate": counts.demand_rate if each.series.method == SAFECACHE else None,
                "relative_cost": counts.cost,
                "n_without_hits": counts.rates.n_without_hits,
                "n_abstained": len(each.series.abstained),
                **_observed(each.series),
            }
        )
    return rows


def _observed(series: Series) -> dict[str, Any]:
    """How much a policy that learns online had to learn from; an entry in several splits counts in each."""
    if not series.observations:
        return dict.fromkeys(("observations_mean", "observations_max", "observations_ready"))
    counts = np.concatenate(series.observations)
    return {
        "observations_mean": float(counts.mean()),
        "observations_max": int(counts.max()),
        "observations_ready": float((counts >= LEAST_COMPARISONS).mean()),
    }


def risk_rows(measured: Sequence[Measured], pool: RoutedPool, exposures: Exposures) -> list[dict[str, Any]]:
    """Columns of `routing_risk_rows`."""
    ids = pool.columns["case_digest"].astype(str)[exposures.rows]
    rows = []
    for each in measured:
        counts = each.counts
        risk = pooled_risk(counts.accepted, exposures.valid, ids)
        point = each.series.point
        above = 0 if point is None else int((counts.rates.fh > float(point.alpha)).sum())
        rows.append(
            {
                **each.named,
                **counts.columns(exposures),
                "rate": risk.exposures.rate if risk.exposures.hits else None,
                "wilson_upper": risk.exposures.wilson,
                "exact_upper": risk.exposures.exact,
                "distinct_accepted": risk.distinct.hits,
                "distinct_invalid": risk.distinct.invalid,
                "distinct_upper": risk.distinct.exact,
                **_at_prevalences(counts, exposures),
                "splits_over_alpha": above,
            }
        )
    return rows


def _at_prevalences(counts: Counts, exposures: Exposures) -> dict[str, float | None]:
    """FH at other shares of invalid candidates than the pool's."""
    if exposures.valid.all() or not exposures.valid.any():
        return {"fh_at_10": None, "fh_at_25": None}
    low, high = at_prevalence(counts.accepted, exposures.valid, (0.10, 0.25)).fh.tolist()
    return {"fh_at_10": low, "fh_at_25": high}


def test_rows(measured: Sequence[Measured], exposures: Exposures) -> list[dict[str, Any]]:
    """Columns of `routing_test_rows`: settings of the router against comparators, Holm over those of each setting.

    The reference is compared with every comparator, each other operating point with what a simpler cache does under
    the same target and budget: exact match, and similarity + verifier selected for that very point.
    """
    routers = [each for each in measured if each.series.method == SAFECACHE]
    rivals = [each for each in measured if each.series.method != SAFECACHE]
    rows = []
    for ours in routers:
        setting = ours.series.setting
        against = [each for each in rivals if setting == REFERENCE or _is_simpler(each.series, setting)]
        rows += _compared(ours, against, exposures)
    return rows


def _is_simpler(series: Series, setting: str) -> bool:
    return series.method == "exact-match" or (series.method == "similarity-verifier" and series.setting == setting)


def _compared(ours: Measured, against: Sequence[Measured], exposures: Exposures) -> list[dict[str, Any]]:
    rows = []
    for each in against:
        a, b = ours.counts, each.counts
        ahead = np.subtract(ours.series.calibration_vchr, each.series.calibration_vchr)
        claim = choose_claim(ahead)
        test = joint_holdout_test(
            a.rates.vchr - b.rates.vchr,
            a.rates.fh - b.rates.fh,
            n_train=exposures.n_train,
            n_test=exposures.n_test,
            claim=claim,
        )
        margin = _MARGIN if claim == NON_INFERIORITY else 0.0
        drawn = cluster_bootstrap(a.accepted, b.accepted, exposures.valid, exposures.clusters, margin=margin)
        swapped = label_swap(a.accepted, b.accepted, exposures.valid, exposures.clusters)
        rows.append(
            {
                "reference": ours.series.setting,
                **each.named,
                "claim": "ni+sup" if claim == NON_INFERIORITY else "sup",
                "d_vchr": test.vchr.mean,
                "d_fh": test.fh.mean,
                "p_vchr": test.vchr.p,
                "p_fh": test.fh.p,
                "p_joint": test.p,
                "d_vchr_low": drawn.vchr.low,
                "d_vchr_high": drawn.vchr.high,
                "d_fh_low": drawn.fh.low,
                "d_fh_high": drawn.fh.high,
                "p_swap_vchr": swapped.p_vchr,
                "p_swap_fh": swapped.p_fh,
            }
        )
    adjusted = holm([row["p_joint"] for row in rows])
    return [{**row, "p_holm": float(p), "family_size": len(rows)} for row, p in zip(rows, adjusted, strict=True)]


def family_rows(measured: Sequence[Measured], pool: RoutedPool, exposures: Exposures) -> list[dict[str, Any]]:
    """Columns of `routing_family_rows`: pooled counts by change family, and by source."""
    rows = []
    for column in ("family", "source"):
        labels = pool.columns[column].astype(str)[exposures.rows]
        for name in sorted(set(labels) - {""}):
            inside = labels == name
            part = {"family": "", "source": "", column: str(name)}
            rows += [{**part, **each.named, **_pooled(each.counts, exposures, inside)} for each in measured]
    return rows


def _pooled(counts: Counts, exposures: Exposures, inside: Any) -> dict[str, Any]:
    accepted = counts.accepted & inside
    n, hits = int(inside.sum()), int(accepted.sum())
    invalid = int((accepted & ~exposures.valid).sum())
    return {
        "n_splits": len(exposures.n_test),
        "exposures": n,
        "accepted": hits,
        "n_valid": hits - invalid,
        "n_invalid": invalid,
        "n_verified": int((counts.verified & inside).sum()),
        "vchr": (hits - invalid) / n,
        "fh": invalid / hits if hits else None,
        "fh_upper": exact_upper(invalid, hits),
    }
