"""vCache with a static threshold (Schroeder et al. 2025, the static rule of its released policies)."""

from cachemend.calibration.baselines.evidence import Decisions, Evidence, without_calls

TAUS = (0.95, 0.98, 0.99)


def vcache(evidence: Evidence, tau: float) -> Decisions:
    """Accept where the cosine is at least `tau`.

    This is the form that the paper compares with (appendix E). vCache's own contribution is a threshold learnt per
    entry, which is `vcache_online`.
    """
    return without_calls(evidence.similarity >= tau)
