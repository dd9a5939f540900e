"""Cache-Me: a similarity threshold, then a language model that compares the two requests (Wu et al. 2026b)."""

from cachemend.calibration.baselines.evidence import Decisions, Evidence
from cachemend.calibration.candidate import Candidate
from cachemend.calibration.verdicts import Question, Verdict, compact_json

TAUS = (0.75, 0.85, 0.95)
INSTRUCTION = (
    "Decide whether q_cache and q_probe ask for the same thing, so that one answer serves both. "
    "Output exactly one word: yes or no."
)


def cache_me(evidence: Evidence, tau: float) -> Decisions:
    """Accept where the cosine is at least `tau` and the query-pair filter says yes.

    Every candidate that is similar enough is asked about. The filter sees the two requests and no context (paper
    appendix E).
    """
    similar = evidence.similarity >= tau
    return Decisions(similar & evidence.column("query_filter"), similar)


def _message(candidate: Candidate) -> str:
    return compact_json({"q_cache": candidate.q_cache, "q_probe": candidate.q_probe})


def _parse(text: str) -> Verdict:
    """Read a yes or no; case and a full stop do not matter, since no exact form is published for this filter."""
    word = text.strip().removesuffix(".").lower()
    return {"yes": Verdict.VALID, "no": Verdict.INVALID}.get(word, Verdict.MALFORMED)


QUERY_PAIR = Question(name="query-pair", instruction=INSTRUCTION, message=_message, parse=_parse)
"""The filter's question. The wording is ours: the paper uses a released prompt that it does not print."""
