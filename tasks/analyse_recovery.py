"""Margin recovery and flips of every arm in every cell, and whether the cell is evidence (edit paper, Table 2)."""

from typing import Any

import numpy as np

from cachemend.calibration.recovery import flip_rate, summarise_recovery
from cachemend.tasks.edit_arms import deployable
from cachemend.tasks.edit_observations import Cell, Observed, by_arm
from cachemend.warehouse.edit_evidence import evidence_checks, judged_k, shortfall

_UNKNOWN = (
    *("mean", "low", "high", "median", "ratio_of_means", "ratio_low", "ratio_high"),
    *("flip_rate", "flip_low", "flip_high", "kl_recovery", "mean_positions"),
)


def recovery_rows(observed: Observed) -> list[dict[str, Any]]:
    """Return the columns of `edit_recovery_rows`, without identity, for every cell and arm."""
    rows: list[dict[str, Any]] = []
    for cell in observed.cells():
        everything, kept = observed.inside(cell, observed.rows), observed.retained(cell)
        shared = {
            "condition": cell[0],
            "distance": cell[1],
            "family": cell[2],
            "n_of": len({row["case_digest"] for row in everything}),
            "n_retained": len({r["case_digest"] for r in observed.inside(cell, observed.ok) if r["retained"]}),
            "evidence": _why_none(observed, cell, everything, kept),
        }
        arms = by_arm(kept)
        for name, found in by_arm(everything).items():
            rows.append({**shared, **_arm(found[0]), **_figures(arms.get(name, []))})
    return rows


def _arm(row: dict[str, Any]) -> dict[str, Any]:
    told = {name: row[name] for name in ("policy", "k", "operator", "arm")}
    return {**told, "diagnostic": row["operator"] == "transplant" or not deployable(row["policy"])}


def _figures(rows: list[dict[str, Any]]) -> dict[str, Any]:
    gap = [row for row in rows if row["margin_clean"] != row["margin_stale"]]
    if not gap:
        return {"n": 0, **dict.fromkeys(_UNKNOWN)}
    summary = summarise_recovery(*([row[name] for row in gap] for name in ("margin", "margin_stale", "margin_clean")))
    flips = flip_rate([float(row["flip"]) for row in gap])
    kl = [row["kl_recovery"] for row in gap if row["kl_recovery"] is not None]
    figures = {
        **summary._asdict(),
        "flip_rate": flips.point,
        "flip_low": flips.low,
        "flip_high": flips.high,
        "kl_recovery": float(np.mean(kl)) if kl else None,
        "mean_positions": float(np.mean([row["n_positions"] for row in gap])),
    }
    return {name: value if value is None or np.isfinite(value) else None for name, value in figures.items()}


def _why_none(
    observed: Observed, cell: Cell, everything: list[dict[str, Any]], kept: list[dict[str, Any]]
) -> str | None:
    """Why a derived cell shows nothing; None where it does, and where nothing is claimed.

    Judged by what is stored, not by what the last run asked for: another K must not make evidence of a cell.
    """
    if cell[0] != "derived":
        return None
    digests = {row["case_digest"] for row in kept}
    arms = by_arm(kept)
    k = judged_k(row["k"] for row in everything if row["policy"] == "random" and row["operator"] == "recompute")
    checks = evidence_checks(
        shortest=min((observed.cases[digest].n_tokens for digest in digests), default=None),
        retained=len(digests),
        families=len({row["family"] for row in kept}),
        random=_mean_recovery(arms.get(f"random@{k}", [])),
        span=_mean_recovery(arms.get("span", [])),
        k=k,
    )
    # A cell of one wording is never judged by how many there are.
    return shortfall([check for check in checks if cell[2] is None or check.name != "wordings"])


def _mean_recovery(rows: list[dict[str, Any]]) -> float | None:
    return float(np.mean([row["margin_recovery"] for row in rows])) if rows else None
