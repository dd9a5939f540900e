"""Routing of cached responses: direct reuse, verification or regeneration (paper section 3.4).

`calibration.routing.service` extracts conditions, which loads scikit-learn: it is imported by its own name.
"""

from cachemend.calibration.routing.ablations import ABLATIONS, Ablation
from cachemend.calibration.routing.budget import TokenBucket, VerifierBudget
from cachemend.calibration.routing.grid import DEFAULT_GRID, PolicyGrid
from cachemend.calibration.routing.ordering import canonical_order
from cachemend.calibration.routing.outcome import Outcome, outcome, relative_cost
from cachemend.calibration.routing.policy import REGENERATE_ALL, Thresholds
from cachemend.calibration.routing.policy_file import load_policy, save_policy
from cachemend.calibration.routing.regions import REGENERATE, REUSE, VERIFY, route
from cachemend.calibration.routing.replay import Replay, replay
from cachemend.calibration.routing.reuse_policy import CalibrationCounts, ReusePolicy
from cachemend.calibration.routing.risk_map import Risk, RiskBlock, RiskMap
from cachemend.calibration.routing.scores import RoutingScores, routing_scores
from cachemend.calibration.routing.selection import Selection, select_policy

__all__ = [
    "ABLATIONS",
    "DEFAULT_GRID",
    "REGENERATE",
    "REGENERATE_ALL",
    "REUSE",
    "VERIFY",
    "Ablation",
    "CalibrationCounts",
    "Outcome",
    "PolicyGrid",
    "Replay",
    "ReusePolicy",
    "Risk",
    "RiskBlock",
    "RiskMap",
    "RoutingScores",
    "Selection",
    "Thresholds",
    "TokenBucket",
    "VerifierBudget",
    "canonical_order",
    "load_policy",
    "outcome",
    "relative_cost",
    "replay",
    "route",
    "routing_scores",
    "save_policy",
    "select_policy",
]
