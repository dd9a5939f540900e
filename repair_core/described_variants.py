"""What each variant of SUR changes and what it is compared with, and which of them were chosen; loads no model code.

Source: "Budgeted KV-Cache Repair for Evolving Contexts", section 9.3: matched fixed blocks and several local windows
are missing there, and bonus, aggregation, decay and thresholds are never varied. Arms were fixed before any of
them was run.
"""

import json
from functools import cache
from importlib.resources import files
from typing import Literal, NamedTuple

Question = Literal["window", "boundaries", "components", "joint", "relevance"]


class Described(NamedTuple):
    """One variant.

    Attributes:
        name: as in `variants.VARIANTS`.
        question: what it helps to answer.
        change: what differs from SUR, one line.
        reference: the arm it is compared with.
        candidate: whether it may take SUR's place: it has SUR's own allowance.
    """

    name: str
    question: Question
    change: str
    reference: str = "sur"
    candidate: bool = True


class Frozen(NamedTuple):
    """The variants chosen on development cases, before the reported ones were run.

    Attributes:
        names: those that beat SUR there, the best first; None while none were run.
        cohorts: digests of the development cohorts they were chosen on.
    """

    names: tuple[str, ...] | None
    cohorts: tuple[str, ...]


DESCRIBED: tuple[Described, ...] = (
    Described("sur-head", "window", "partial unit: its first tokens"),
    Described("sur-tail", "window", "partial unit: its last tokens"),
    Described("sur-backward", "window", "partial unit: envelope from the last token to the first"),
    Described("sur-symmetric", "window", "partial unit: larger of both envelopes"),
    Described("sur-tails-2", "window", "budget split over the tails of the two best units"),
    Described("sur-tails-4", "window", "budget split over the tails of the four best units"),
    Described("fixed-blocks", "boundaries", "equal blocks, as many as there are units"),
    Described("windows-1", "boundaries", "one window of largest summed relevance"),
    Described("windows-2", "boundaries", "two such windows of half the width"),
    Described("windows-4", "boundaries", "four such windows of a quarter of the width"),
    Described("sur-bonus-0", "components", "no bonus for identical tokens (SUR: 0.25)"),
    Described("sur-bonus-0.5", "components", "bonus 0.5 for identical tokens (SUR: 0.25)"),
    Described("sur-top-1", "components", "a unit's largest score (SUR: mean of four)"),
    Described("sur-top-all", "components", "mean of all scores of a unit (SUR: of four)"),
    Described("sur-decay-0", "components", "window without an envelope (SUR: e^(-1/16))"),
    Described("sur-decay-4", "components", "envelope decay e^(-1/4) (SUR: e^(-1/16))"),
    Described("sur-decay-64", "components", "envelope decay e^(-1/64) (SUR: e^(-1/16))"),
    Described("sur-min-16", "components", "units merge below 16 tokens (SUR: 8)"),
    Described("sur-min-32", "components", "units merge below 32 tokens (SUR: 8)"),
    Described("sur-max-16", "components", "units split above 16 tokens (SUR: 128)"),
    Described("sur-max-32", "components", "units split above 32 tokens (SUR: 128)"),
    Described("sur-of-prompt", "joint", "allowance from the whole prompt", candidate=False),
    Described(
        "joint-mean-head",
        "joint",
        "mean of all scores, head of the partial unit, allowance from the whole prompt",
        candidate=False,
    ),
    Described("matched-tokens", "joint", "single tokens, as many as whole-units", "whole-units", candidate=False),
    Described(
        "whole-units", "joint", "no partial unit: the allowance is reached or passed", "matched-tokens", candidate=False
    ),
    Described("hybrid-z", "relevance", "units by the sum of z-scored embeddings and BM25"),
    Described("hybrid-rank", "relevance", "units by the sum of the ranks of embeddings and BM25"),
    Described("sur-two-stage", "relevance", "second half by attention on the half-repaired cache"),
    Described("sur-bridged", "relevance", "gaps of at most 32 tokens between regions filled"),
)


@cache
def read_frozen() -> Frozen:
    """Return the choice that this version holds."""
    found = json.loads(files("cachemend.repair_core").joinpath("frozen_variants.json").read_text(encoding="utf-8"))
    names = found["names"]
    return Frozen(None if names is None else tuple(names), tuple(found["cohorts"]))
