"""Conditions under which a cached answer holds: found, matched and checked for contradictions (paper S, section 3).

Text in, records and numbers out; the same rules for every data set, all words of them in ``lexicon.json``.
"""

from cachemend.calibration.conditions.explaining import Explanation, explain
from cachemend.calibration.conditions.extracting import Condition, extract_conditions
from cachemend.calibration.conditions.extractor_version import EXTRACTOR_VERSION
from cachemend.calibration.conditions.guards import Conflicts, Fired, detect_conflicts
from cachemend.calibration.conditions.lexicon import Lexicon, load_lexicon
from cachemend.calibration.conditions.matching import Matching, match, match_many
from cachemend.calibration.conditions.prepared import PreparedEntry, RequestScore, prepare_entry, score_request
from cachemend.calibration.conditions.signals import CandidateSignals, candidate_signals

__all__ = [
    "EXTRACTOR_VERSION",
    "CandidateSignals",
    "Condition",
    "Conflicts",
    "Explanation",
    "Fired",
    "Lexicon",
    "Matching",
    "PreparedEntry",
    "RequestScore",
    "candidate_signals",
    "detect_conflicts",
    "explain",
    "extract_conditions",
    "load_lexicon",
    "match",
    "match_many",
    "prepare_entry",
    "score_request",
]
