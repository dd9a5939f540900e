"""What each part of the router contributes, and what the order of requests does (paper section 4.3, appendix J)."""

from collections.abc import Sequence
from typing import Any

from cachemend.calibration.routing.exact import exact_rate, whole_part
from cachemend.calibration.routing.outcome import LOCAL_COST
from cachemend.calibration.splits import Split
from cachemend.tasks.routing.pool import RoutedPool
from cachemend.tasks.routing.replaying import (
    ABLATED,
    POINTS,
    SAFECACHE,
    Point,
    Series,
    Served,
    orders,
    played,
    replay_ablations,
    routed,
    split_scores,
)
from cachemend.tasks.routing.stacked import Counts, Exposures

_FULL = "full"


def ablation_rows(
    pool: RoutedPool, splits: Sequence[Split], exposures: Exposures, *, own_guards: bool
) -> list[dict[str, Any]]:
    """Columns of `routing_ablation_rows`."""
    made = replay_ablations(pool, splits, ABLATED, own_guards=own_guards)
    counts = {name: Counts.of(series, exposures) for name, series in made.items()}
    full = counts[_FULL].macro
    return [
        {
            "ablation": name,
            "setting": ABLATED.setting,
            **each.columns(exposures),
            **each.macro,
            "d_vchr": each.macro["vchr"] - full["vchr"],
            "d_fh": each.macro["fh"] - full["fh"],
        }
        for name, each in counts.items()
    ]


def order_rows(
    pool: RoutedPool,
    splits: Sequence[Split],
    exposures: Exposures,
    point: Point = POINTS[0],
    *,
    own_guards: bool,
) -> list[dict[str, Any]]:
    """Columns of `routing_order_rows`: the policies of the canonical order, replayed in others."""
    made: dict[str, Series] = {}
    for split in splits:
        at = split_scores(pool, split, own_guards=own_guards)
        chosen, _ = routed(at, point)
        for name, order in orders(at.test):
            series = made.setdefault(
                name, Series(method=SAFECACHE, setting=point.setting, point=point, local_cost=LOCAL_COST)
            )
            series.served.append(Served(*played(at.test, at.test_scores, chosen.thresholds, point.budget, order)))
    rate = exact_rate("budget", point.budget)
    allowed = [whole_part(rate, len(split.test)) for split in splits]
    rows = []
    for name, series in made.items():
        each = Counts.of(series, exposures)
        calls = exposures.per_split(each.verified)
        rows.append(
            {
                "setting": point.setting,
                "request_order": name,
                **each.columns(exposures),
                **each.macro,
                "verifier_rate": each.verifier_rate,
                "over_budget": sum(int(made > most) for made, most in zip(calls, allowed, strict=True)),
            }
        )
    return rows
