"""GPTCache: one threshold on the similarity of the two requests (Zilliz 2023)."""

from cachemend.calibration.baselines.evidence import Decisions, Evidence, without_calls

TAUS = (0.70, 0.80, 0.90)


def gptcache(evidence: Evidence, tau: float) -> Decisions:
    """Accept where the cosine is at least `tau`: the paper's adapter (appendix E).

    The released library scores a hit by ``4 - d^2``, d being the Euclidean distance, and accepts where that is at
    least ``4 tau``. For unit vectors ``d^2 = 2 - 2 cos``, so that its threshold tau admits every ``cos >= 2 tau - 1``:
    .70, .80 and .90 there are .40, .60 and .80 here.
    """
    return without_calls(evidence.similarity >= tau)
