"""The two references without a threshold: reuse for the same text only, and no reuse at all."""

import numpy as np

from cachemend.calibration.baselines.evidence import Decisions, Evidence, abstain, without_calls


def exact_match(evidence: Evidence) -> Decisions:
    """Accept where the two requests are the same text, character by character.

    Contexts are not compared: this is the limit of the similarity thresholds, which do not see them either.
    """
    return without_calls(np.array(evidence.column("same_query"), dtype=bool))


def no_cache(evidence: Evidence) -> Decisions:
    """Regenerate every response (paper appendix E)."""
    return abstain(evidence)
