"""Building the Erasing-NIAH cohort for one tokenizer (paper sections 4.2 and 7.5)."""

from collections import Counter
from collections.abc import Collection
from dataclasses import asdict
from typing import TYPE_CHECKING

from cachemend.datasets.cohort import Cohort
from cachemend.datasets.niah_candidate import Slot, Unusable, build_candidate, case_id
from cachemend.datasets.niah_case import STRATA, NiahCase
from cachemend.datasets.niah_rosters import ROSTERS
from cachemend.datasets.niah_spec import DepthPlan, NiahPrompt, NiahRoster
from cachemend.datasets.tokenizer_identity import tokenizer_identity
from cachemend.repair_core.errors import InputError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["ROSTERS", "DepthPlan", "NiahCase", "NiahPrompt", "NiahRoster", "build_niah"]

BUILDER_VERSION = 3
CANDIDATES_PER_CASE = 20
_CONTROL_OFFSET = 500_000


def build_niah(tokenizer: "PreTrainedTokenizerBase", roster: NiahRoster, *, exclude: Collection[str] = ()) -> Cohort:
    """Build a roster's cases for `tokenizer`, in an order whose every prefix spreads over the lengths.

    First-deleted cases come first, the control stratum after them. A candidate that does not tokenize as a
    deletion needs is dropped with its reason in the manifest, and the next seed takes its place.

    Args:
        tokenizer: a fast tokenizer; lengths are in its tokens.
        roster: what to build.
        exclude: case ids to drop as well: those another compared model dropped, so that all models see
            the same seeds.

    Raises:
        InputError: no offsets from the tokenizer, or a case for which every candidate was dropped.
    """
    cases: list[NiahCase] = []
    drops: list[dict[str, str]] = []
    for slot in _slots(roster):
        cases.append(_fill(tokenizer, roster, slot, exclude, drops))
    long_suffix = [len(c.suffix_ids) >= 0.75 * c.n_tokens for c in cases if c.stratum == STRATA[0]]
    return Cohort.of(
        roster.name,
        cases,
        score_rule=roster.score_rule,
        decoding=roster.decoding,
        builder_version=BUILDER_VERSION,
        tokenizer=tokenizer_identity(tokenizer),
        seeds=[case.seed for case in cases],
        lengths=list(roster.lengths),
        strata=dict(Counter(case.stratum for case in cases)),
        long_suffix_share=sum(long_suffix) / len(long_suffix),
        prompt=asdict(roster.prompt),
        depths=asdict(roster.depths),
        max_new_tokens=roster.max_new_tokens,
        n_candidates=len(cases) + len(drops),
        drops=drops,
    )


def _slots(roster: NiahRoster) -> list[Slot]:
    counts = zip(STRATA, (roster.cases_per_length, roster.control_per_length), strict=True)
    return [
        Slot(stratum, length, index) for stratum, count in counts for index in range(count) for length in roster.lengths
    ]


def _fill(
    tokenizer: "PreTrainedTokenizerBase",
    roster: NiahRoster,
    slot: Slot,
    exclude: Collection[str],
    drops: list[dict[str, str]],
) -> NiahCase:
    """Return the first usable candidate of a slot and add the dropped ones to `drops`."""
    first = roster.first_seed + _CONTROL_OFFSET * STRATA.index(slot.stratum) + slot.index * CANDIDATES_PER_CASE
    reasons: Counter[str] = Counter()
    for seed in range(first, first + CANDIDATES_PER_CASE):
        candidate = case_id(roster, slot, seed)
        try:
            if candidate in exclude:
                raise Unusable("dropped for another compared model")
            return build_candidate(tokenizer, roster, slot, seed)
        except Unusable as reason:
            drops.append({"candidate": candidate, "reason": str(reason)})
            reasons[str(reason)] += 1
    told = "; ".join(f"{reason} ({count} times)" for reason, count in reasons.most_common())
    raise InputError(
        f"roster {roster.name!r} has no usable case of length {slot.length} for tokenizer "
        f"{tokenizer.name_or_path!r}: {told}"
    )
