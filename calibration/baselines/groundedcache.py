"""GroundedCache: reuse where the evidence behind a response still holds (Shah 2026, arXiv:2605.27494)."""

import re
from collections.abc import Sequence
from functools import partial
from itertools import product
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from cachemend.calibration.arrays import check_lengths, flags
from cachemend.calibration.baselines.contextcache import sentences
from cachemend.calibration.baselines.evidence import Decisions, Evidence, Floats, Rule, abstain, without_calls

TAUS = (0.70, 0.80, 0.90, 0.95)
LEVELS = tuple(step / 10 for step in range(1, 11))

_MARKER = re.compile(
    r"\b(?:\d{4}-\d{2}-\d{2}(?:[t ]\d{2}:\d{2}(?::\d{2})?)?|(?:19|20)\d{2}|v?\d+(?:\.\d+)+)\b"
    r"|\b(?:version|revision|snapshot|updated(?:[ _]at)?|as[ _]of)\s*[:=]?\s*[\w.:-]+"
)
_WORD = re.compile(r"[^\W_]+")


class Grounds(NamedTuple):
    """What the contexts of a candidate say about its response; as in `Evidence`."""

    same_version: bool
    evidence_overlap: float
    response_support: float


def grounds(context_cache: str, context_probe: str, r_cache: str) -> Grounds:
    """Compare two contexts, and the cached response with the new one.

    GroundedCache compares retrieved passages by their ids and versions. A pair has no ids: here each sentence or line
    of a context is a passage, equal text being the same one; markers are dates, years, dotted versions and what
    follows words such as "version" or "updated"; overlap is Jaccard's index of the passages; support is the share of
    the response's words that the new context holds. Contexts without passages overlap in nothing.
    """
    cache, probe = _passages(context_cache), _passages(context_probe)
    words, known = set(_WORD.findall(r_cache.lower())), set(_WORD.findall(context_probe.lower()))
    return Grounds(
        same_version=_markers(context_cache) == _markers(context_probe),
        evidence_overlap=len(cache & probe) / max(len(cache | probe), 1),
        response_support=len(words & known) / max(len(words), 1),
    )


def fit_groundedcache(calibration: Evidence, valid: ArrayLike) -> Rule:
    """Choose the thresholds of similarity, overlap and support on the calibration subset (appendix E).

    Like a routing policy's at alpha = 0 (equation 9): of the threshold triples that accept no invalid candidate, the
    one that accepts most valid ones; the strictest on ties, similarity before overlap before support. `abstain` where
    none that accepts anything is free of invalid candidates.

    Args:
        calibration: of n candidates.
        valid: whether reuse is valid, shape ``[n]``.

    Raises:
        ValueError: labels that are not n values of 0 and 1.
    """
    good = flags("valid", valid)
    check_lengths(valid=good, similarity=calibration.similarity)
    best: tuple[float, ...] = (inf, inf, inf)
    most = 0
    for thresholds in product(*(sorted(axis, reverse=True) for axis in (TAUS, LEVELS, LEVELS))):
        accepted = groundedcache(calibration, thresholds).accepted
        hits = int((accepted & good).sum())
        if hits > most and not (accepted & ~good).any():
            best, most = thresholds, hits
    return partial(groundedcache, thresholds=best) if most else abstain


def groundedcache(evidence: Evidence, thresholds: Sequence[float]) -> Decisions:
    """Accept where versions are compatible and similarity, overlap and support, in this order, reach `thresholds`."""
    measured: tuple[Floats, ...] = (
        evidence.similarity,
        evidence.column("evidence_overlap"),
        evidence.column("response_support"),
    )
    reached = [values >= least for values, least in zip(measured, thresholds, strict=True)]
    return without_calls(evidence.column("same_version") & np.logical_and.reduce(reached))


def _passages(context: str) -> set[str]:
    return {" ".join(passage.lower().split()) for passage in sentences(context)}


def _markers(context: str) -> set[str]:
    return set(_MARKER.findall(context.lower()))
