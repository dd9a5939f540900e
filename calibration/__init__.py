"""Statistics that all experiments share. Arrays in, named tuples out; no I/O.

`calibration.trigger` needs scikit-learn, which takes long to load: it is imported by its own name.
"""

from cachemend.calibration.contrasts import Contrast, PairContrast, Tally, all_pairs, chosen_pairs, contrast
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

__all__ = [
    "ArmResult",
    "CellChoice",
    "Contrast",
    "Interval",
    "Observations",
    "PairContrast",
    "PairedTest",
    "RecoverySummary",
    "TableEvaluation",
    "Tally",
    "all_pairs",
    "bootstrap_mean",
    "chosen_pairs",
    "contrast",
    "derive_table",
    "evaluate_table",
    "flip_rate",
    "holm",
    "kl_recovery",
    "margin_recovery",
    "mcnemar_exact",
    "paired_bootstrap",
    "summarise_recovery",
    "wilson_interval",
]
