"""Statistics that all experiments share. Arrays in, named tuples out; no I/O."""

from cachemend.calibration.intervals import Interval, bootstrap_mean, paired_bootstrap, wilson_interval
from cachemend.calibration.paired import PairedTest, holm, mcnemar_exact

__all__ = [
    "Interval",
    "PairedTest",
    "bootstrap_mean",
    "holm",
    "mcnemar_exact",
    "paired_bootstrap",
    "wilson_interval",
]
