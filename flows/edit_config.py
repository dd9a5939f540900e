"""The settings of an edit-repair run, and their validation before any work starts."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from cachemend.datasets.edit_build import SEEDS_PER_CANDIDATE
from cachemend.datasets.edit_families import FAMILIES
from cachemend.datasets.edit_rosters import EDIT_ROSTERS, EDIT_SEQUENCE_ROSTERS
from cachemend.datasets.edit_spec import LONGEST_SPAN, SEQUENCE_WINDOW, WINDOW, EditRoster, EditSequenceRoster
from cachemend.flows.model_config import Lengths, ModelConfig, Names, Whole, check_distinct, check_known
from cachemend.repair_core.embedded import EMBEDDED
from cachemend.repair_core.errors import InputError, nearest
from cachemend.repair_core.executors import REPAIRING
from cachemend.repair_core.policies import DIAGNOSTICS, POLICIES
from cachemend.tasks.edit_arms import EDIT_REFERENCES, EditArm, deployable, own_length, policy_arms
from cachemend.tasks.edit_choosing import ORACLES
from cachemend.tasks.edit_cost import DEPTH, SPAN, CostArm
from cachemend.tasks.edit_sequence_arms import AT_ONCE, LIMITED, SUCCESSIVE, SequenceArm

STUDIES = ("main", "operators", "severity", "sequences", "cost")
PRIMARY_K = 32
COST_LENGTHS = (5000, 8000)
COST_EXECUTORS = ("packed", "interval")
# The panel on which transplanting and recomputing are compared (edit paper, "Transplant is not recomputation").
OPERATOR_POLICIES = ("edit-local", "attention", "random", "causal-oracle", "causal-oracle-screened")
OPERATOR_ITEMS = 15
SEQUENCE_POLICIES = ("edit-local", "edit-local-boundary", "random")
FEW_EDITS = 4
R = TypeVar("R", EditRoster, EditSequenceRoster)


def _number(value: Any) -> Any:
    if isinstance(value, bool):
        raise PydanticCustomError("number", "input should be a number")
    return value


Number = Annotated[float, BeforeValidator(_number)]


class EditRepairConfig(ModelConfig):
    """The settings of an edit-repair run (edit paper, "Experimental Setup").

    Attributes:
        study: "main" (policies at every K, references, diagnostics), "operators" (what main recorded, transplanted),
            "severity" (references and edit-local of every candidate, irrelevant edits too), "sequences" (several edits
            of one context), "cost" (refresh beside re-prefill), or "all" of them in this order.
        policies: policies and diagnostics; None for all, with the causal oracle that `screen` names.
        k: downstream positions besides the edit span.
        cases: rosters; None for the dev and the held-out roster of embedded models, or of all others.
        families: wordings, instead of the rosters'.
        background: file of paragraphs, instead of the rosters'.
        length: tokens of an item's context, instead of the rosters'.
        tokenizers: models under whose tokenizers too every single edit must be buildable, to compare them on the
            same items; None for none.
        lengths: tokens of the contexts that are timed; None for 5,000 and 8,000, or what the model holds.
        seed: added to the rosters' first seeds, without reaching another roster's; another seed is another cohort.
        min_gap: nats per token that the clean margin must exceed the stale one by for an item to be retained.
        screen: rank single positions only in the best blocks (causal-oracle-screened); false tries every position.
        staleness_limit: the most edits that a row may have missed in the limited sequences.
        spot_check: share of main's repairs, drawn by `seed`, whose distance from a re-prefill is told at the end.
    """

    offered_executors = REPAIRING

    study: Literal["all", "main", "operators", "severity", "sequences", "cost"] = "all"
    policies: Names | None = None
    k: Lengths = (8, 16, 32, 64)
    cases: Names | None = None
    families: Names | None = None
    background: str | None = None
    length: Whole | None = Field(default=None, ge=1)
    lengths: Lengths | None = None
    tokenizers: Names | None = None
    min_gap: Number = Field(default=0.5, ge=0, allow_inf_nan=False)
    screen: bool = True
    staleness_limit: Whole = Field(default=4, ge=0)
    spot_check: Number = Field(default=0.0, ge=0, le=1)

    @model_validator(mode="after")
    def _check(self) -> Self:
        for key in ("policies", "k", "cases", "families", "lengths", "tokenizers"):
            check_distinct(key, getattr(self, key))
        for policy in self.policies or ():
            check_known("policies", policy, (*POLICIES, *DIAGNOSTICS))
        self._check_sequence_policies()
        if self.spot_check and "main" not in self.studies:
            raise InputError(
                f"spot_check {self.spot_check:g} is for the repairs of study 'main'; leave it out of {self.study!r}"
            )
        if self.length is not None and self.studies == ("cost",):
            raise InputError(
                f"length {self.length} is for contexts of edits; study 'cost' takes lengths, e.g. 2000,4000"
            )
        for family in self.families or ():
            check_known("families", family, FAMILIES)
        for roster in self.cases or ():
            check_known("cases", roster, EDIT_ROSTERS)
        if self.seed is not None and self.seed > (most := largest_seed()):
            raise InputError(
                f"seed {self.seed} is too large; give 0 to {most}, or it would reach another roster's seeds"
            )
        if self.executor not in REPAIRING:
            raise InputError(f"executor {self.executor!r} repairs nothing; {nearest(self.executor, REPAIRING)}")
        if self.background is not None and not Path(self.background).is_file():
            raise InputError(f"background {self.background!r} is no file; give a JSON or JSONL file of paragraphs")
        self.rosters("main")
        return self

    @property
    def studies(self) -> tuple[str, ...]:
        """The studies to run, in order."""
        return STUDIES if self.study == "all" else (self.study,)

    def rosters(self, study: str) -> tuple[EditRoster, ...]:
        """The rosters of a study on single edits: severity takes one without retention where there is one."""
        names = self._roster_names()
        if study == "severity":
            names = tuple(dict.fromkeys(n if n.endswith("-dev") else _variant(n, "severity") for n in names))
        return tuple(self._changed(EDIT_ROSTERS[name]) for name in names)

    def sequence_rosters(self) -> tuple[EditSequenceRoster, ...]:
        """The rosters of contexts with several edits that go with the rosters of single ones."""
        wanted = (_sequence_name(name) for name in self._roster_names())
        return tuple(self._changed(EDIT_SEQUENCE_ROSTERS[n]) for n in dict.fromkeys(wanted) if n)

    def arms(self) -> tuple[EditArm, ...]:
        """The three references, then every policy at every K."""
        arms = policy_arms(self._policies(), self.k)
        # The effects behind an oracle cost one answer per position, and the more positions the larger K is.
        few = (None, min(self.k), self.primary_k)
        return (*EDIT_REFERENCES, *(arm for arm in arms if arm.policy not in ORACLES or arm.k in few))

    def operator_arms(self) -> tuple[EditArm, ...]:
        """The transplants of the panel."""
        panel = [policy for policy in self._policies() if policy in OPERATOR_POLICIES]
        return policy_arms(panel, self.k, "transplant")

    def sequence_arms(self, n_edits: int) -> tuple[SequenceArm, ...]:
        """Span alone and the deployable policies: few edits at once and in turn, many in turn and with a limit."""
        chosen = self.policies if self.policies is not None else SEQUENCE_POLICIES
        policies = ("span", *(policy for policy in chosen if deployable(policy)))
        modes = (AT_ONCE, SUCCESSIVE) if n_edits <= FEW_EDITS else (SUCCESSIVE, LIMITED)
        return tuple(
            SequenceArm(
                mode=mode,
                policy=policy,
                k=None if policy == "span" or own_length(policy) else self.primary_k,
                staleness_limit=self.staleness_limit if mode == LIMITED else None,
            )
            for mode in modes
            for policy in policies
        )

    def cost_arm(self) -> CostArm:
        """Everything that is timed at one length."""
        return CostArm(ks=tuple(sorted(self.k)), executors=COST_EXECUTORS)

    def cost_lengths(self) -> tuple[int, ...]:
        """The lengths to time, none beyond what the model holds."""
        if self.lengths is not None:
            return tuple(sorted(self.lengths))
        limit = self.limit()
        return tuple(dict.fromkeys(length if limit is None else min(length, limit) for length in COST_LENGTHS))

    @property
    def primary_k(self) -> int:
        """The K of tables and tests: 32, or the largest there is."""
        return PRIMARY_K if PRIMARY_K in self.k else max(self.k)

    def check_model(self) -> None:
        """Check that the model exists and holds every context; reads its configuration, not its weights.

        Raises:
            InputError: an unknown model, a folder without weights, or a length the model cannot hold.
        """
        limit = self.limit()
        rosters: list[EditRoster | EditSequenceRoster] = []
        for study in self.studies:
            if study == "sequences":
                rosters += self.sequence_rosters()
            elif study != "cost":
                rosters += self.rosters(study)
        for roster in rosters:
            if limit is not None and roster.n_tokens + roster.max_new_tokens > limit:
                raise InputError(
                    f"cases {roster.name!r} have {roster.n_tokens} tokens and {roster.max_new_tokens} new ones, and "
                    f"model {self.model!r} holds {limit}; choose shorter ones with --set length=..."
                )
        self._check_k()
        if "cost" in self.studies:
            self._check_lengths(limit)

    def _check_k(self) -> None:
        """Against what is downstream of the latest edit that a roster allows, in a context of its length."""
        # Severity repairs at one K.
        most = {"main": max(self.k), "operators": max(self.k), "severity": self.primary_k}
        for study in (study for study in self.studies if study in most):
            for roster in self.rosters(study):
                fits = max(0, int((1 - WINDOW[1]) * roster.n_tokens) - LONGEST_SPAN - 1)
                if most[study] > fits:
                    raise InputError(
                        f"k {most[study]} exceeds the {fits} positions that are downstream of every edit of cases "
                        f"{roster.name!r}, whose contexts have {roster.n_tokens} tokens; give a smaller k or a longer "
                        "length"
                    )
        if "sequences" in self.studies:
            self._check_sequence_k()

    def _check_sequence_k(self) -> None:
        """Against what is downstream of the last record, which stands at the break nearest to its nominal place."""
        for roster in self.sequence_rosters():
            arms = self.sequence_arms(max(roster.records))
            most = max((arm.k for arm in arms if arm.k is not None), default=0)
            fits = max(0, roster.n_tokens - int(SEQUENCE_WINDOW[1] * roster.n_tokens) - LONGEST_SPAN - 1)
            if most > fits:
                raise InputError(
                    f"k {most} exceeds the {fits} positions that are downstream of the last edit of cases "
                    f"{roster.name!r}, whose contexts have {roster.n_tokens} tokens; give a smaller k or a longer "
                    "length"
                )

    def _check_sequence_policies(self) -> None:
        told = [policy for policy in self.policies or () if not deployable(policy)]
        if told and (self.study == "sequences" or (self.study == "all" and len(told) == len(self.policies or ()))):
            raise InputError(
                f"policies {told} know the truth of one edit and cannot run in study 'sequences'; give deployable ones"
            )

    def _check_lengths(self, limit: int | None) -> None:
        for length in self.cost_lengths():
            if limit is not None and length > limit:
                raise InputError(f"length {length} exceeds the {limit} tokens that model {self.model!r} holds")
            if max(self.k) > (downstream := length - int(DEPTH * length) - SPAN - 1):
                raise InputError(f"k {max(self.k)} exceeds the {downstream} positions downstream at length {length}")

    def _policies(self) -> tuple[str, ...]:
        if self.policies is not None:
            return self.policies
        other = "causal-oracle" if self.screen else "causal-oracle-screened"
        return tuple(policy for policy in (*POLICIES, *DIAGNOSTICS) if policy != other)

    def _roster_names(self) -> tuple[str, ...]:
        default = ("embedded-dev", "embedded") if self.model in EMBEDDED else ("paper-dev", "paper", "paper-distance")
        return self.cases if self.cases is not None else default

    def _changed(self, roster: R) -> R:
        changes: dict[str, Any] = {}
        if self.families is not None:
            changes["families"] = tuple(FAMILIES[name] for name in self.families)
        if self.background is not None:
            changes["background"] = self.background
        if self.length is not None:
            changes["n_tokens"] = self.length
        if self.seed is not None:
            # Added, not put in its place: dev and held-out seeds stay disjoint, of runs with other seeds too.
            changes["first_seed"] = roster.first_seed + self.seed
        return replace(roster, **changes)


def largest_seed() -> int:
    """The largest `seed` with which no roster reaches the seeds that another has without."""
    rosters: list[EditRoster | EditSequenceRoster] = [*EDIT_ROSTERS.values(), *EDIT_SEQUENCE_ROSTERS.values()]
    first = sorted(roster.first_seed for roster in rosters)
    return min(b - a for a, b in pairwise(first)) - max(_candidates(roster) for roster in rosters) * SEEDS_PER_CANDIDATE


def _candidates(roster: EditRoster | EditSequenceRoster) -> int:
    if isinstance(roster, EditRoster):
        return roster.max_candidates
    return roster.cases_per_size * len(roster.records)


def _variant(name: str, kind: str) -> str:
    """The roster of another kind that goes with `name`, or `name` where there is none."""
    variant = f"{name}-{kind}"
    return variant if variant in EDIT_ROSTERS else name


def _sequence_name(name: str) -> str | None:
    """The sequence roster that goes with a roster of single edits; None where there is none."""
    base, _, split = name.partition("-")
    wanted = f"{base}-sequences-dev" if split == "dev" else f"{base}-sequences"
    return wanted if wanted in EDIT_SEQUENCE_ROSTERS else None
