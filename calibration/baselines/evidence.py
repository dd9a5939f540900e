"""What baselines look at and what they return: arrays over candidates, without labels."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cachemend.calibration.errors import CalibrationError

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

_FLAGS = ("same_query", "query_filter", "same_version", "verified")


class Decisions(NamedTuple):
    """What became of n candidates.

    Attributes:
        accepted: the cached response is returned, bool ``[n]``.
        verifier_called: a language model was asked about the candidate, whatever it said, bool ``[n]``: what the cost
            protocol charges (paper appendix K).
        observations: what a rule that learns while it serves learnt from, a number for each cached entry; None for
            all others.
    """

    accepted: Flags
    verifier_called: Flags
    observations: NDArray[np.intp] | None = None


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Inputs of the baselines for n candidates, all of shape ``[n]``; a method reads those that Table 9 lets it see.

    A value that is not a number passes no threshold. Labels are no part of it: a rule cannot read them.

    Attributes:
        similarity: cosine of cached and new request.
        same_query: the two requests are the same text.
        query_filter: a language model said that the two requests want the same answer (Cache-Me); False where it
            failed.
        dialogue_similarity: cosine of the mean-pooled embeddings of request and context (ContextCache).
        likelihood: mean log-likelihood per token of the cached response after the new request, in nats
            (Conditional-PPL); NaN where it could not be computed.
        same_version: the contexts' version markers are compatible (GroundedCache).
        evidence_overlap: share of evidence the two contexts have in common, from 0 to 1.
        response_support: share of the cached response's words that the new context holds, from 0 to 1.
        verified: the verifier says exactly VALID; False where it failed. Read for verified candidates only.
        order: a permutation of ``0 .. n - 1``: which candidate comes first, second, ...
        entry: which cached entry the candidate offers, whole numbers.
        regenerated: tells whether the response generated for candidate i agrees with the cached one. vCache's online
            policy asks it for candidates it has just regenerated; nothing else may.
    """

    similarity: Floats
    same_query: Flags | None = None
    query_filter: Flags | None = None
    dialogue_similarity: Floats | None = None
    likelihood: Floats | None = None
    same_version: Flags | None = None
    evidence_overlap: Floats | None = None
    response_support: Floats | None = None
    verified: Flags | None = None
    order: NDArray[np.intp] | None = None
    entry: NDArray[np.intp] | None = None
    regenerated: Callable[[int], bool] | None = None

    def __post_init__(self) -> None:
        n = len(self)
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None or field.name == "regenerated":
                continue
            if np.shape(value) != (n,):
                raise ValueError(f"{field.name} has shape {np.shape(value)}; there are {n} candidates")
            if field.name in _FLAGS and value.dtype != np.bool_:
                raise ValueError(f"{field.name} has type {value.dtype}; give booleans")

    def __len__(self) -> int:
        return len(self.similarity)

    def column(self, name: str) -> Any:
        """Return a column that a method cannot do without.

        Raises:
            CalibrationError: it was not given.
        """
        value = getattr(self, name)
        if value is None:
            raise CalibrationError(f"evidence {name!r} is missing; this baseline needs it")
        return value


Rule = Callable[[Evidence], Decisions]
"""A baseline with its thresholds fixed."""


def without_calls(accepted: Flags) -> Decisions:
    """Decisions of a rule that asks no language model."""
    return Decisions(accepted, np.zeros(len(accepted), dtype=bool))


def abstain(evidence: Evidence) -> Decisions:
    """Regenerate every response: the rule that a fit returns where no setting is feasible."""
    return without_calls(np.zeros(len(evidence), dtype=bool))
