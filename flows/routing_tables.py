"""The tables and lines that a response-routing run prints, from rows of the views."""

from collections.abc import Sequence
from typing import Any

from rich.table import Table

_SIMPLER = ("exact-match", "similarity-verifier")


def points_table(pool: str, rows: Sequence[dict[str, Any]]) -> Table:
    """Methods down; valid hits, false hits with their counts, calls and cost across; the ceiling beside."""
    first = next(row for row in rows if not row["diagnostic"])
    table = Table(
        title=f"pool {pool}: {first['exposures']} held-out exposures of {first['n_splits']} splits",
        title_justify="left",
    )
    table.add_column("method")
    for name in ("VCHR", "FH", "invalid of returned", "verifier calls", "cost", "VCHR, label oracle"):
        table.add_column(name, justify="right")
    ceiling = {(row["method"], row["setting"]): row for row in rows if row["diagnostic"]}
    for row in rows:
        if row["diagnostic"]:
            continue
        top = ceiling.get((row["method"], row["setting"]))
        abstained = f" (abstains in {row['n_abstained']})" if row["n_abstained"] else ""
        table.add_row(
            f"{row['method']} {row['setting']}{abstained}",
            f"{row['vchr']:.3f}",
            f"{row['fh']:.4f}",
            f"{row['n_invalid']} of {row['accepted']}",
            f"{row['verifier_rate']:.3f}",
            f"{row['relative_cost']:.3f}",
            "-" if top is None else f"{top['vchr']:.3f}",
        )
    return table


def stress_table(rows: Sequence[dict[str, Any]]) -> Table:
    """Hits on adversarial requests, rows of `routing_stress`."""
    table = Table(title=f"stress: {rows[0]['n']} adversarial requests, every hit unsafe", title_justify="left")
    table.add_column("method")
    for name in ("hits", "hit rate", "95 % upper bound"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            f"{row['method']} {row['setting']}", str(row["n_hits"]), f"{row['hit_rate']:.3f}", f"{row['upper']:.3f}"
        )
    return table


def gains_table(rows: Sequence[dict[str, Any]]) -> Table:
    """What the router gains at each operating point over simpler caches, with 95 % cluster-bootstrap intervals.

    Args:
        rows: of `routing_tests`; the comparators that have the same target and budget, or none, are shown.
    """
    table = Table(title="gain at the same alpha and B, points (95 % interval)", title_justify="left")
    for name in ("safecache", "over"):
        table.add_column(name)
    for name in ("VCHR", "FH"):
        table.add_column(name, justify="right")
    for row in rows:
        if row["method"] in _SIMPLER and row["setting"] in ("query", row["reference"]):
            gains = (_gain(row, name) for name in ("d_vchr", "d_fh"))
            table.add_row(row["reference"], f"{row['method']} {row['setting']}", *gains)
    return table


def traces(points: Sequence[dict[str, Any]], probes: Sequence[dict[str, Any]]) -> list[str]:
    """Lines on what limits the figures: one side of a pair that tells the label, entries with little to learn from.

    Args:
        points: rows of `routing_points` and `routing_ceiling`.
        probes: rows of `routing_probes`.
    """
    lines = [
        f"pool {row['pool']}, source {row['source']}: the {row['side']} alone tells the label with AUROC "
        f"{row['auroc']:.3f} ({row['n']} pairs); figures on it say less about routing than they seem to"
        for row in probes
        if row["within_target"] is False
    ]
    unasked = [f"{row['source']} ({row['pool']}, {row['side']})" for row in probes if row["within_target"] is None]
    if unasked:
        lines.append(f"too few clusters to ask whether one side tells the label: {', '.join(unasked)}")
    return lines + [
        f"pool {row['pool']}, {row['method']} {row['setting']}: {row['observations_mean']:.2f} observations per cached "
        f"entry, at most {row['observations_max']}; {row['observations_ready']:.1%} of entries have enough to answer"
        for row in points
        if row["observations_mean"] is not None and not row["diagnostic"]
    ]


def _gain(row: dict[str, Any], name: str) -> str:
    value, low, high = (100 * row[column] for column in (name, f"{name}_low", f"{name}_high"))
    return f"{value:+.2f} ({low:+.2f} to {high:+.2f})"
