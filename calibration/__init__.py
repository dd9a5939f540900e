"""Response reuse, and the statistics that all experiments share. Texts and arrays in, named tuples out.

`calibration.trigger` and `calibration.ranking` need scikit-learn, which takes long to load: they are imported by their
own names. What looks at texts needs it too and is loaded on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cachemend.calibration.bounds import exact_upper, wilson_upper
from cachemend.calibration.candidate import Candidate
from cachemend.calibration.contrasts import Contrast, PairContrast, Tally, all_pairs, chosen_pairs, contrast
from cachemend.calibration.errors import CalibrationError
from cachemend.calibration.holdout_test import corrected_holdout_test
from cachemend.calibration.intervals import Interval, bootstrap_mean, paired_bootstrap, wilson_interval
from cachemend.calibration.paired import PairedTest, holm, mcnemar_exact
from cachemend.calibration.policy_table import (
    ArmResult,
    CellChoice,
    Observations,
    TableEvaluation,
    derive_table,
    evaluate_table,
)
from cachemend.calibration.recovery import (
    RecoverySummary,
    flip_rate,
    kl_recovery,
    margin_recovery,
    summarise_recovery,
)
from cachemend.calibration.routing import (
    PolicyGrid,
    ReusePolicy,
    RiskMap,
    Thresholds,
    load_policy,
    replay,
    route,
    routing_scores,
    save_policy,
    select_policy,
)
from cachemend.calibration.splits import repeated_splits

if TYPE_CHECKING:
    from cachemend.calibration.conditions import (
        candidate_signals,
        detect_conflicts,
        explain,
        extract_conditions,
        match,
        prepare_entry,
    )
    from cachemend.calibration.routing.service import Router

_OF_TEXTS = {
    **dict.fromkeys(
        ("candidate_signals", "detect_conflicts", "explain", "extract_conditions", "match", "prepare_entry"),
        "conditions",
    ),
    "Router": "routing.service",
}

__all__ = [
    "ArmResult",
    "CalibrationError",
    "Candidate",
    "CellChoice",
    "Contrast",
    "Interval",
    "Observations",
    "PairContrast",
    "PairedTest",
    "PolicyGrid",
    "RecoverySummary",
    "ReusePolicy",
    "RiskMap",
    "Router",
    "TableEvaluation",
    "Tally",
    "Thresholds",
    "all_pairs",
    "bootstrap_mean",
    "candidate_signals",
    "chosen_pairs",
    "contrast",
    "corrected_holdout_test",
    "derive_table",
    "detect_conflicts",
    "evaluate_table",
    "exact_upper",
    "explain",
    "extract_conditions",
    "flip_rate",
    "holm",
    "kl_recovery",
    "load_policy",
    "margin_recovery",
    "match",
    "mcnemar_exact",
    "paired_bootstrap",
    "prepare_entry",
    "repeated_splits",
    "replay",
    "route",
    "routing_scores",
    "save_policy",
    "select_policy",
    "summarise_recovery",
    "wilson_interval",
    "wilson_upper",
]


def __getattr__(name: str) -> Any:
    if name not in _OF_TEXTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_OF_TEXTS[name]}"), name)
