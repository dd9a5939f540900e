"""Building cohorts of in-place edits for one tokenizer (edit paper, "Paired edit benchmark")."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

from cachemend.datasets.cohort import Cohort
from cachemend.datasets.edit_background import load_background
from cachemend.datasets.edit_candidate import build_item, item_id
from cachemend.datasets.edit_case import EditCase
from cachemend.datasets.edit_fitting import Fitting
from cachemend.datasets.edit_rosters import EDIT_ROSTERS, EDIT_SEQUENCE_ROSTERS
from cachemend.datasets.edit_sequence import build_sequence, sequence_id
from cachemend.datasets.edit_sequence_case import EditSequenceCase
from cachemend.datasets.edit_spec import EditRoster, EditSequenceRoster
from cachemend.datasets.niah_candidate import Unusable
from cachemend.datasets.tokenizer_identity import tokenizer_identity
from cachemend.repair_core.errors import InputError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = [
    "EDIT_ROSTERS",
    "EDIT_SEQUENCE_ROSTERS",
    "EditCase",
    "EditRoster",
    "EditSequenceCase",
    "EditSequenceRoster",
    "build_edit_sequences",
    "build_edits",
]

BUILDER_VERSION = 1
# Names drawn at random often differ in length under some tokenizer, and that shows before anything is built.
SEEDS_PER_CANDIDATE = 200
# What reasons say that a longer context would remove: the edit's window, or too little around the records.
_TOO_SHORT = ("the edit stands outside", "background documents")
Built = TypeVar("Built")


def build_edits(
    tokenizer: "PreTrainedTokenizerBase", roster: EditRoster, others: Sequence["PreTrainedTokenizerBase"] = ()
) -> Cohort:
    """Build every candidate item of a roster, in an order whose every prefix spreads over families and conditions.

    The cases of an item stand together. A seed whose item breaks a rule is dropped with its reason in the manifest,
    and the next seed of the same candidate takes its place, so the families keep taking turns.

    Args:
        tokenizer: a fast tokenizer; lengths and distances are in its tokens.
        roster: what to build.
        others: tokenizers of the other compared models: an edit must keep its length under each of them.

    Raises:
        InputError: no offsets from a tokenizer, too little background, or a candidate with no usable seed.
    """
    fitting = Fitting.of(tokenizer, others, roster)
    cases: list[EditCase] = []
    drops: list[dict[str, str]] = []
    for number in range(roster.max_candidates):
        family = roster.families[number % len(roster.families)]
        seeds = _seeds(roster.first_seed, number)
        item = _first_usable(
            roster.name,
            {seed: item_id(roster, family, seed) for seed in seeds},
            lambda seed, family=family: build_item(fitting, roster, family, seed),  # type: ignore[misc]
            drops,
        )
        cases += item
    return Cohort.of(
        roster.name,
        cases,
        **_facts(tokenizer, others, roster, drops),
        seeds=list(dict.fromkeys(case.seed for case in cases)),
        conditions=list(roster.conditions),
        distances=list(roster.distances),
        forms=[f"{condition}-d{distance}" for condition, distance in roster.forms],
        expansion={
            "n_items": roster.n_items,
            "n_others": roster.n_others or roster.n_items,
            "n_candidates": roster.n_candidates,
            "expand_by": roster.expand_by,
            "max_candidates": roster.max_candidates,
            "pools": list(roster.pools),
            "rule": (
                "candidates run in cohort order, one pool size after another; a cell runs until it retains n_items "
                "(derived, distance 0) or n_others; nothing else changes"
            ),
        },
        n_candidates=roster.max_candidates + len(drops),
    )


def build_edit_sequences(tokenizer: "PreTrainedTokenizerBase", roster: EditSequenceRoster) -> Cohort:
    """Build contexts with several edited records; every prefix of the cohort spreads over the numbers of records.

    Raises:
        InputError: no offsets from the tokenizer, too little background, too few names, or a case with no usable seed.
    """
    fitting = Fitting.of(tokenizer, (), roster)
    drops: list[dict[str, str]] = []
    slots = [size for _ in range(roster.cases_per_size) for size in roster.records]
    cases = [
        _first_usable(
            roster.name,
            {seed: sequence_id(roster, size, seed) for seed in _seeds(roster.first_seed, number)},
            lambda seed, size=size: build_sequence(fitting, roster, size, seed),  # type: ignore[misc]
            drops,
        )
        for number, size in enumerate(slots)
    ]
    return Cohort.of(
        roster.name,
        cases,
        **_facts(tokenizer, (), roster, drops),
        seeds=[case.seed for case in cases],
        conditions=list(roster.conditions),
        records=list(roster.records),
        n_candidates=len(cases) + len(drops),
    )


def _seeds(first: int, number: int) -> range:
    start = first + number * SEEDS_PER_CANDIDATE
    return range(start, start + SEEDS_PER_CANDIDATE)


def _first_usable(
    roster: str, seeds: dict[int, str], build: Callable[[int], Built], drops: list[dict[str, str]]
) -> Built:
    """Return what the first usable seed gives and add the dropped ones to `drops`."""
    reasons: Counter[str] = Counter()
    for seed, candidate in seeds.items():
        try:
            return build(seed)
        except Unusable as reason:
            drops.append({"candidate": candidate, "reason": str(reason)})
            reasons[str(reason)] += 1
    told = "; ".join(f"{reason} ({count} times)" for reason, count in reasons.most_common())
    hint = "; give a longer length" if any(sign in told for sign in _TOO_SHORT) else ""
    raise InputError(
        f"roster {roster!r} has no usable candidate {next(iter(seeds.values()))!r} and after: {told}{hint}"
    )


def _facts(
    tokenizer: "PreTrainedTokenizerBase",
    others: Sequence["PreTrainedTokenizerBase"],
    roster: EditRoster | EditSequenceRoster,
    drops: list[dict[str, str]],
) -> dict[str, Any]:
    """The manifest's entries that both kinds of cohort have."""
    background = load_background(roster.background)
    return {
        "score_rule": roster.score_rule,
        "decoding": roster.decoding,
        "builder_version": BUILDER_VERSION,
        "tokenizer": tokenizer_identity(tokenizer),
        "other_tokenizers": [tokenizer_identity(other) for other in others],
        "split": roster.split,
        "lengths": [roster.n_tokens],
        "style": roster.style,
        "families": [asdict(family) for family in roster.families],
        "background": {
            "name": background.name,
            "fingerprint": background.fingerprint,
            "n_paragraphs": len(background.paragraphs),
            "n_paragraphs_of_split": len(background.of_split(roster.split)),
        },
        "max_new_tokens": roster.max_new_tokens,
        "drops": drops,
        "drop_reasons": dict(Counter(drop["reason"] for drop in drops)),
    }
