"""What is measured once per pair: similarity, condition signals, verdicts, and what baselines look at."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cachemend.calibration.baselines import cache_me, conditional_ppl
from cachemend.calibration.baselines.contextcache import dialogue_similarity, sentences
from cachemend.calibration.baselines.groundedcache import grounds
from cachemend.calibration.candidate import Candidate
from cachemend.calibration.conditions import candidate_signals
from cachemend.calibration.routing.grid import DEFAULT_GRID
from cachemend.calibration.verdicts import Verdict
from cachemend.tasks.encoding import Vectors
from cachemend.tasks.verifying.source import VerdictSource

NUMBERS = ("d_match", "u_match", "h_rule", "h_ctx", "h_own", "n_cache", "n_request")
"""The signals that are numbers or flags."""

Encode = Callable[[Sequence[str]], Vectors]


@dataclass(frozen=True, kw_only=True)
class Instruments:
    """What measures a pair.

    Attributes:
        encode: vectors of length 1 per text, shape ``[n, dimensions]``.
        verifier: answers the verifier's question; None where no verdicts are wanted, like the two that follow.
        query_filter: answers Cache-Me's question about the two requests.
        likelihoods: mean log-likelihood per token of each cached response after the new request, nats.
    """

    encode: Encode
    verifier: VerdictSource | None = None
    query_filter: VerdictSource | None = None
    likelihoods: Callable[[Sequence[Candidate]], Sequence[float]] | None = None


def measure(candidates: Sequence[Candidate], instruments: Instruments) -> list[dict[str, Any]]:
    """Return the measured columns of `route_records` for each candidate.

    A language model is asked only about candidates that some policy or baseline would ask it about, which follows
    from their similarity.
    """
    similarity = _similarity(candidates, instruments.encode)
    signals = candidate_signals(candidates)
    dialogue = _dialogues(candidates, instruments.encode)
    verdicts = _asked(candidates, similarity >= min(DEFAULT_GRID.tau_v), instruments.verifier)
    filters = _asked(candidates, similarity >= min(cache_me.TAUS), instruments.query_filter)
    likelihoods = _likelihoods(candidates, similarity >= conditional_ppl.TAU, instruments)
    rows = []
    for at, candidate in enumerate(candidates):
        support = grounds(candidate.context_cache, candidate.context_probe, candidate.r_cache)
        row = {
            "similarity": float(similarity[at]),
            **{name: getattr(signals, name)[at].item() for name in NUMBERS},
            "fired": list(signals.fired[at]),
            "verdict": verdicts[at],
            "query_filter": filters[at],
            "likelihood": likelihoods[at],
            "dialogue_similarity": float(dialogue[at]),
            "same_query": candidate.q_cache.strip() == candidate.q_probe.strip(),
            **support._asdict(),
        }
        failed = Verdict.FAILED.name in (verdicts[at], filters[at])
        row["outcome"] = "case_error" if failed else "ok"
        row["error"] = "the verifier gave no answer" if failed else None
        rows.append(row)
    return rows


def _similarity(candidates: Sequence[Candidate], encode: Encode) -> NDArray[np.float64]:
    texts = [text for candidate in candidates for text in (candidate.q_cache, candidate.q_probe)]
    vectors = encode(texts).astype(np.float64)
    return np.clip((vectors[0::2] * vectors[1::2]).sum(axis=1), -1.0, 1.0)


def _dialogues(candidates: Sequence[Candidate], encode: Encode) -> NDArray[np.float64]:
    """Cosine of the two dialogues' mean vectors; every text is encoded once for all candidates."""
    sides = [
        (*sentences(context), query)
        for candidate in candidates
        for context, query in (
            (candidate.context_cache, candidate.q_cache),
            (candidate.context_probe, candidate.q_probe),
        )
    ]
    texts = list(dict.fromkeys(text for side in sides for text in side))
    place = {text: at for at, text in enumerate(texts)}
    vectors = encode(texts)
    pooled = [vectors[[place[text] for text in side]] for side in sides]
    return np.array([dialogue_similarity(a, b) for a, b in zip(pooled[0::2], pooled[1::2], strict=True)])


def _asked(
    candidates: Sequence[Candidate], wanted: NDArray[np.bool_], source: VerdictSource | None
) -> list[str | None]:
    answers: list[str | None] = [None] * len(candidates)
    places = np.flatnonzero(wanted).tolist() if source is not None else []
    if source is not None and places:
        for at, verdict in zip(places, source.verdicts([candidates[at] for at in places]), strict=True):
            answers[at] = verdict.name
    return answers


def _likelihoods(
    candidates: Sequence[Candidate], wanted: NDArray[np.bool_], instruments: Instruments
) -> list[float | None]:
    values: list[float | None] = [None] * len(candidates)
    places = np.flatnonzero(wanted).tolist() if instruments.likelihoods is not None else []
    if instruments.likelihoods is not None and places:
        found = instruments.likelihoods([candidates[at] for at in places])
        for at, value in zip(places, found, strict=True):
            values[at] = float(value) if np.isfinite(value) else None
    return values
