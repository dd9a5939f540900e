"""Decide on cached responses as they are served, with a calibrated policy."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cachemend.calibration.candidate import Candidate
from cachemend.calibration.conditions.explaining import Explanation, explain
from cachemend.calibration.conditions.extractor_version import EXTRACTOR_VERSION
from cachemend.calibration.conditions.lexicon import Lexicon, load_lexicon
from cachemend.calibration.conditions.prepared import PreparedEntry, prepare_entry, score_request
from cachemend.calibration.conditions.signals import CandidateSignals
from cachemend.calibration.errors import CalibrationError
from cachemend.calibration.routing.budget import VerifierBudget
from cachemend.calibration.routing.reasons import reason
from cachemend.calibration.routing.regions import REUSE, VERIFY, route
from cachemend.calibration.routing.reuse_policy import ReusePolicy
from cachemend.calibration.routing.scores import routing_scores

Encode = Callable[[Sequence[str]], NDArray[np.float32]]
"""Texts to L2-normalised vectors, shape ``[n, dim]``."""

_NORM_TOLERANCE = 1e-2


@dataclass(frozen=True, kw_only=True, eq=False)
class RoutedEntry:
    """A cached response with all that can be computed when it is stored.

    Attributes:
        query, response, context: what was cached; not shown in its representation.
        prepared: its conditions.
        vector: of the query, shape ``[dim]``, L2-normalised.
    """

    query: str = field(repr=False)
    response: str = field(repr=False)
    context: str = field(repr=False)
    prepared: PreparedEntry = field(repr=False)
    vector: NDArray[np.float32] = field(repr=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class Decision:
    """What to do with a cached response, and why.

    Attributes:
        action: "reuse" (return it), "verify" (return it only if the verifier says exactly VALID) or "regenerate".
        reason: one sentence with the values that decided; nothing of any text.
        similarity: of the two requests, S.
        d: routing risk, D.
        u: uncertainty, U.
        h: whether there is an explicit conflict, H.
        candidate: the texts; not shown in its representation.
        lexicon: what conditions were extracted with.
    """

    action: str
    reason: str
    similarity: float
    d: float
    u: float
    h: bool
    candidate: Candidate = field(repr=False)
    lexicon: Lexicon = field(repr=False)

    def explanation(self) -> Explanation:
        """The conditions of both sides, what matched what, and the rules that fired; computed on each call."""
        return explain(self.candidate, lexicon=self.lexicon)


class Router:
    """Applies a policy to one cached response and one request at a time; safe to share between threads.

    Args:
        policy: from `load_policy`.
        encode: the query encoder that the policy was calibrated with.
        encoder: its name.
        lexicon: None for the packaged one.
        verifier_budget: counts every routed request; None for the policy's own rate over windows of 100.

    Raises:
        CalibrationError: the policy was made with another lexicon, another encoder or by another release's rules.
    """

    def __init__(
        self,
        policy: ReusePolicy,
        encode: Encode,
        *,
        encoder: str,
        lexicon: Lexicon | None = None,
        verifier_budget: VerifierBudget | None = None,
    ) -> None:
        self.policy = policy
        self.lexicon = load_lexicon() if lexicon is None else lexicon
        self._encode = encode
        if encoder != policy.encoder:
            raise CalibrationError(
                f"the policy was made with encoder {policy.encoder!r}, not {encoder!r}; calibrate again"
            )
        if policy.extractor_version != EXTRACTOR_VERSION:
            raise CalibrationError(
                f"the policy was made with extractor version {policy.extractor_version}; this release has version "
                f"{EXTRACTOR_VERSION}, whose conditions and conflicts differ: calibrate again"
            )
        if self.lexicon.digest != policy.lexicon_digest:
            raise CalibrationError(
                f"the policy was made with lexicon {policy.lexicon_version} (SHA-256 {policy.lexicon_digest[:12]}); "
                f"this is {self.lexicon.version} ({self.lexicon.digest[:12]}): give that lexicon, or calibrate again"
            )
        self.verifier_budget = VerifierBudget(policy.budget) if verifier_budget is None else verifier_budget

    def prepare(self, query: str, response: str, context: str) -> RoutedEntry:
        """Extract the conditions of a cached response and encode its query, once, when it is stored.

        Args:
            query: the request it answered.
            response: the cached response.
            context: what it was given in; "" for none.

        Raises:
            CalibrationError: a text is no string, or the encoder does not return one L2-normalised vector.
        """
        _refuse_others(query=query, response=response, context=context)
        prepared = prepare_entry(query, response, context, lexicon=self.lexicon)
        return RoutedEntry(
            query=query, response=response, context=context, prepared=prepared, vector=self._vector(query)
        )

    def route(self, entry: RoutedEntry, query: str, context: str) -> Decision:
        """Decide whether `entry` may answer a new request. Counts one candidate of the verifier budget.

        Args:
            entry: of `prepare`, by a router with the same encoder and lexicon.
            query: the new request.
            context: its context; "" for none.

        Raises:
            CalibrationError: a text is no string, the encoder does not return one L2-normalised vector of the entry's
                length, or the entry was prepared with another lexicon; nothing is then counted.
        """
        _refuse_others(query=query, context=context)
        candidate = Candidate(
            q_cache=entry.query,
            r_cache=entry.response,
            context_cache=entry.context,
            q_probe=query,
            context_probe=context,
        )
        if entry.prepared.lexicon.digest != self.lexicon.digest:
            raise CalibrationError(
                f"the entry was prepared with lexicon {entry.prepared.lexicon.version}; prepare it again"
            )
        vector = self._vector(query)
        if vector.shape != entry.vector.shape:
            raise CalibrationError(
                f"the encoder gave {vector.size} dimensions, and {entry.vector.size} for the entry; prepare it again"
            )
        # Rounding may carry the cosine of equal texts beyond 1.
        similarity = float(np.clip(np.dot(entry.vector.astype(np.float64), vector), -1, 1))
        found = score_request(entry.prepared, query, context)
        signals = CandidateSignals(
            d_match=np.array([found.d_match]),
            u_match=np.array([found.u_match]),
            h_rule=np.array([found.conflicts.h_rule]),
            h_ctx=np.array([found.conflicts.h_ctx]),
            h_own=np.array([found.conflicts.h_own]),
            n_cache=np.array([found.n_cache]),
            n_request=np.array([found.n_request]),
        )
        scores = routing_scores([similarity], signals, self.policy.risk_map, own_guards=self.policy.own_guards)
        wished = int(route(scores, self.policy.thresholds)[0])
        granted = self.verifier_budget.take(wished == VERIFY)
        d, u, h = float(scores.d[0]), float(scores.u[0]), bool(scores.h[0])
        if scores.empty[0]:
            side = "request" if found.n_cache else "cached response"
            why = f"regenerated: no condition was found on the side of the {side}"
        else:
            why = reason(wished, granted, similarity, d, u, h, self.policy.thresholds)
        return Decision(
            action="reuse" if wished == REUSE else "verify" if granted else "regenerate",
            reason=why,
            similarity=similarity,
            d=d,
            u=u,
            h=h,
            candidate=candidate,
            lexicon=self.lexicon,
        )

    def _vector(self, text: str) -> NDArray[np.float32]:
        vectors = np.asarray(self._encode([text]))
        if vectors.ndim != 2 or len(vectors) != 1:
            raise CalibrationError(
                f"the encoder returned shape {vectors.shape} for one text; it must be (1, dimensions)"
            )
        norm = float(np.linalg.norm(vectors[0]))
        if not abs(norm - 1) <= _NORM_TOLERANCE:
            raise CalibrationError(f"the encoder returned a vector of length {norm:.4g}; it must be L2-normalised")
        return vectors[0]


def _refuse_others(**texts: object) -> None:
    for name, value in texts.items():
        if not isinstance(value, str):
            raise CalibrationError(f"{name} is a {type(value).__name__}; give a string")
