"""How often a stale cache fails, whether cheap features foretell how badly, and what a gate is worth.

Edit paper, "Repair Should Be Unconditional".
"""

import json
from typing import Any

import numpy as np

from cachemend.calibration.gate import Costs, Failures, Gate, gate_value
from cachemend.calibration.intervals import SEED
from cachemend.calibration.trigger import N_FOLDS, base_rates, severity_study
from cachemend.datasets.edit_features import edit_features_of
from cachemend.repair_core.features import EditFeatures
from cachemend.tasks.edit_observations import Observed

SHARES = (0.1, 0.25, 0.5, 0.75, 1.0)
RELEVANT = ("direct", "derived")
_UNKNOWN = dict.fromkeys(
    ("condition", "share", "n", "n_groups", "rate", "low", "high", "rho", "rho_p", "r2", "failures", "seconds")
)


def trigger_rows(observed: Observed, features: dict[str, EditFeatures], primary_k: int) -> list[dict[str, Any]]:
    """Return the columns of `edit_trigger_rows`, without identity; items without any retention.

    Args:
        observed: the records.
        features: what is known of each case before its repair, by digest.
        primary_k: K of the edit-local repair that a gate would send an edit to.
    """
    return [*_base_rates(observed), *_severity(observed), *_gates(observed, features, primary_k)]


def _references(observed: Observed, policy: str) -> dict[str, dict[str, Any]]:
    return {row["case_digest"]: row for row in observed.ok if row["policy"] == policy and row["distance"] == 0}


def _base_rates(observed: Observed) -> list[dict[str, Any]]:
    stale = list(_references(observed, "stale").values())
    if not stale:
        return []
    rates = base_rates([float(not row["flip"]) for row in stale], [row["condition"] for row in stale])
    return [
        {
            **_UNKNOWN,
            "kind": "base-rate",
            "subject": "stale",
            "condition": condition,
            "n": rate.n,
            "rate": rate.point,
            "low": rate.low,
            "high": rate.high,
        }
        for condition, rate in rates.items()
    ]


def _severity(observed: Observed) -> list[dict[str, Any]]:
    """Severity is the margin between clean and stale cache."""
    stale = _references(observed, "stale")
    clean = [
        row
        for digest, row in _references(observed, "clean").items()
        if row["condition"] in RELEVANT and digest in stale
    ]
    severity = [row["margin_clean"] - row["margin_stale"] for row in clean]
    groups = [row["item_id"] for row in clean]
    if len(set(groups)) < N_FOLDS or len(set(severity)) < 2:
        return []
    named = [
        edit_features_of(observed.cases[digest]) | json.loads(stale[digest]["embedding_features"])
        for digest in (row["case_digest"] for row in clean)
    ]
    names = list(named[0])
    found = severity_study([[each[name] for name in names] for each in named], names, severity, groups, SEED)
    return [
        {
            **_UNKNOWN,
            "kind": "severity",
            "subject": result.regressor,
            "n": result.n,
            "n_groups": result.n_groups,
            **{
                name: value if np.isfinite(value) else None
                for name, value in (("rho", result.rho), ("rho_p", result.rho_p), ("r2", result.r2))
            },
        }
        for result in found
    ]


def _gates(observed: Observed, features: dict[str, EditFeatures], primary_k: int) -> list[dict[str, Any]]:
    """Repair always, never, or where a word of the question stands in the edited block, by share of relevant edits."""
    stale, clean = _references(observed, "stale"), _references(observed, "clean")
    repaired = {
        row["case_digest"]: row
        for row in observed.ok
        if row["policy"] == "edit-local" and row["k"] == primary_k and row["operator"] == "recompute"
    }
    # Irrelevant edits are repaired by their span alone: nothing downstream depends on it.
    repaired |= {d: row for d, row in _references(observed, "span").items() if row["condition"] == "irrelevant"}
    right = [digest for digest, row in clean.items() if row["flip"] and digest in stale and digest in repaired]
    kinds = {
        kind: [digest for digest in right if (stale[digest]["condition"] in RELEVANT) == kind] for kind in (True, False)
    }
    if not kinds[True] or not kinds[False]:
        return []
    relevant, irrelevant = (
        Failures(stale=_share_wrong(stale, digests), repaired=_share_wrong(repaired, digests))
        for digests in kinds.values()
    )
    sent = [float(np.mean([features[digest].query_overlap for digest in digests])) for digests in kinds.values()]
    costs = Costs(
        repair=float(np.median([repaired[digest]["t_refresh"] for digest in kinds[True]])),
        re_prefill=float(np.median([clean[digest]["t_refresh"] for digest in right])),
        predict=0.0,
    )
    gate = Gate(relevant=sent[0], irrelevant=sent[1])
    return [
        {
            **_UNKNOWN,
            "kind": "gate",
            "subject": value.rule,
            "share": value.share,
            "n": len(right),
            "failures": value.failures,
            "seconds": value.cost,
        }
        for value in gate_value(relevant, irrelevant, gate, costs, SHARES)
    ]


def _share_wrong(rows: dict[str, dict[str, Any]], digests: list[str]) -> float:
    return float(np.mean([not rows[digest]["flip"] for digest in digests]))
