"""How often a stale cache fails, whether cheap features foretell it and how badly, and what a gate is worth.

Edit paper, "Repair Should Be Unconditional".
"""

import json
from typing import Any

import numpy as np

from cachemend.calibration.failure_predictor import FailurePredictor
from cachemend.calibration.intervals import SEED
from cachemend.calibration.trigger import N_FOLDS, base_rates, severity_study
from cachemend.datasets.edit_features import edit_features_of
from cachemend.tasks.analyse_gate import gate_rows
from cachemend.tasks.edit_observations import Observed
from cachemend.tasks.trigger_row import RELEVANT, references, trigger_row


def trigger_rows(observed: Observed, primary_k: int, predictor: FailurePredictor | None) -> list[dict[str, Any]]:
    """Return the columns of `edit_trigger_rows`, without identity; items without any retention.

    Args:
        observed: the records.
        primary_k: K of the edit-local repair that a gate would send an edit to.
        predictor: of stale failures, fitted on a development cohort; None where there is none.
    """
    return [*_base_rates(observed), *_severity(observed), *gate_rows(observed, primary_k, predictor)]


def _base_rates(observed: Observed) -> list[dict[str, Any]]:
    stale = list(references(observed, "stale").values())
    if not stale:
        return []
    rates = base_rates([float(not row["flip"]) for row in stale], [row["condition"] for row in stale])
    return [
        trigger_row("base-rate", "stale", condition=condition, n=rate.n, rate=rate.point, low=rate.low, high=rate.high)
        for condition, rate in rates.items()
    ]


def _severity(observed: Observed) -> list[dict[str, Any]]:
    """Severity is the margin between clean and stale cache."""
    stale = references(observed, "stale")
    clean = [
        row for digest, row in references(observed, "clean").items() if row["condition"] in RELEVANT and digest in stale
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
        trigger_row(
            "severity",
            result.regressor,
            n=result.n,
            n_groups=result.n_groups,
            **{
                name: value if np.isfinite(value) else None
                for name, value in (("rho", result.rho), ("rho_p", result.rho_p), ("r2", result.r2))
            },
        )
        for result in found
    ]
