"""Conditional-PPL: a similar request after which the cached response is likely text (Wu et al. 2026a)."""

from functools import partial
from math import inf

import numpy as np
from numpy.typing import ArrayLike

from cachemend.calibration.arrays import check_lengths, flags
from cachemend.calibration.baselines.evidence import Decisions, Evidence, Flags, Floats, Rule
from cachemend.calibration.errors import CalibrationError

TAU = 0.80
MAX_F1, YOUDEN_J = CRITERIA = ("max-f1", "youden-j")


def fit_conditional_ppl(calibration: Evidence, valid: ArrayLike, criterion: str) -> Rule:
    """Choose the likelihood cutoff on the calibration subset; the query threshold is fixed at .80 (appendix E).

    The filter judges candidates that are similar enough, so that its cutoff is chosen on those: among their own
    likelihoods and infinity, which accepts none, the one with the greatest F1 or Youden's J; the higher one on ties.

    Args:
        calibration: of n candidates.
        valid: whether reuse is valid, shape ``[n]``.
        criterion: `MAX_F1` or `YOUDEN_J`.

    Raises:
        CalibrationError: another criterion.
        ValueError: labels that are not n values of 0 and 1.
    """
    if criterion not in CRITERIA:
        raise CalibrationError(f"criterion {criterion!r} is unknown; give one of {', '.join(CRITERIA)}")
    good = flags("valid", valid)
    check_lengths(valid=good, similarity=calibration.similarity)
    judged = calibration.similarity >= TAU
    return partial(conditional_ppl, cutoff=_cutoff(calibration.column("likelihood")[judged], good[judged], criterion))


def conditional_ppl(evidence: Evidence, cutoff: float) -> Decisions:
    """Accept where the cosine is at least .80 and the mean log-likelihood at least `cutoff`, in nats per token."""
    similar = evidence.similarity >= TAU
    return Decisions(similar & (evidence.column("likelihood") >= cutoff), similar)


def _cutoff(likelihood: Floats, good: Flags, criterion: str) -> float:
    cutoffs = np.append(np.unique(likelihood[np.isfinite(likelihood)]), inf)
    # Sorted likelihoods: how many of each kind lie below a cutoff says how many lie at or above it.
    counts = []
    for kind in (good, ~good):
        values = np.sort(np.where(np.isfinite(likelihood), likelihood, -inf)[kind])
        counts.append(len(values) - np.searchsorted(values, cutoffs, side="left"))
    hits, misses = counts
    if criterion == MAX_F1:
        score = 2 * hits / np.maximum(hits + misses + good.sum(), 1)
    else:
        score = hits / max(good.sum(), 1) - misses / max((~good).sum(), 1)
    return float(cutoffs[len(score) - 1 - np.argmax(score[::-1])])
