"""The methods that routing is compared with (paper section 4.1 and appendix E, Table 9)."""

from cachemend.calibration.baselines.evidence import Decisions, Evidence, Rule
from cachemend.calibration.baselines.registry import BASELINES, Baseline, baseline

__all__ = ["BASELINES", "Baseline", "Decisions", "Evidence", "Rule", "baseline"]
