"""ContextCache: request and dialogue must both be similar (Yan et al. 2025, the released public branch)."""

import re

import numpy as np
from numpy.typing import ArrayLike

from cachemend.calibration.baselines.evidence import Decisions, Evidence, without_calls

TAU_QUERY = 0.75
TAU_DIALOGUE = 0.60

_BREAKS = re.compile(r"\n+|(?<=[.!?])\s+")


def contextcache(evidence: Evidence) -> Decisions:
    """Accept where the requests' cosine is at least .75 and that of the mean-pooled dialogues at least .60.

    The public branch ships a trained attention encoder and, as its default, plain means of sentence embeddings with
    these two thresholds (its configuration's `similarity_threshold` and `dialuoge_threshold`, method "mean"). Its
    demonstration with the encoder adds the two similarities up instead; the paper compares with the default
    (appendix E).
    """
    dialogue = evidence.column("dialogue_similarity")
    return without_calls((evidence.similarity >= TAU_QUERY) & (dialogue >= TAU_DIALOGUE))


def sentences(context: str) -> tuple[str, ...]:
    """Split a context into what is embedded one by one: its lines, and the sentences of a line."""
    return tuple(piece for piece in map(str.strip, _BREAKS.split(context)) if piece)


def dialogue_similarity(cache: ArrayLike, probe: ArrayLike) -> float:
    """Return the cosine of two dialogues' mean embeddings.

    Args:
        cache, probe: embeddings of the context's sentences and, last, of the request, shapes ``[a, d]``, ``[b, d]``;
            without a context the request stands alone. 0 where a mean vanishes.
    """
    left, right = (np.asarray(vectors, dtype=np.float64).mean(axis=0) for vectors in (cache, probe))
    norm = float(np.linalg.norm(left) * np.linalg.norm(right))
    return float(left @ right) / norm if norm else 0.0
