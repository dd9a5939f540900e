"""The settings of an Erasing-NIAH run, and their validation before any work starts."""

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, model_validator

from cachemend.datasets.niah_rosters import ROSTERS
from cachemend.datasets.niah_spec import NiahRoster
from cachemend.flows.model_config import Lengths, ModelConfig, Names, check_distinct, check_known, listed
from cachemend.repair_core.allocators import names
from cachemend.repair_core.arms import Arm, sweep_arms
from cachemend.repair_core.budget import parse_percent
from cachemend.repair_core.embedded import EMBEDDED
from cachemend.repair_core.errors import InputError
from cachemend.repair_core.locality import LOCALITY
from cachemend.repair_core.models import context_limit
from cachemend.repair_core.variants import VARIANTS, check_rule

CONTROLS = ("sur", "dense-tokens", "max-relevance-window", "bm25-units", "random-units")
DEFAULT_BUDGETS = (2.0, 5.0, 10.0, 20.0)
COMPLETE_BUDGETS = (2.0, 5.0, 10.0, 20.0, 40.0, 80.0)
QUESTION_BUDGETS = (0.5, 1.0, 2.0, 3.0, 5.0)


def _budgets(value: Any) -> Any:
    items = listed(value)
    if not isinstance(items, list | tuple):
        return items
    if any(isinstance(item, bool) for item in items):
        raise InputError(f"budgets {items} must be percentages from 0 to 100")
    return [float(parse_percent(item)) for item in items]


Budgets = Annotated[tuple[float, ...], BeforeValidator(_budgets)]

_SWEEPS: dict[str, Callable[[], tuple[tuple[str, ...], tuple[float, ...]]]] = {
    "default": lambda: (CONTROLS, DEFAULT_BUDGETS),
    "demo": lambda: (CONTROLS, DEFAULT_BUDGETS),
    "complete": lambda: (names(), COMPLETE_BUDGETS),
    "questions": lambda: (("sur", *VARIANTS), QUESTION_BUDGETS),
    "locality": lambda: (("sur",), QUESTION_BUDGETS),
}


class ErasingNiahConfig(ModelConfig):
    """The settings of an Erasing-NIAH run (paper sections 4.2 and 7).

    Attributes:
        sweep: "default" (or "demo"): SUR and the four controls at 2, 5, 10, 20 %; "complete": every allocator
            at 2, 5, 10, 20, 40, 80 %; "questions": SUR and its variants at 0.5, 1, 2, 3, 5 %; "locality": SUR at the
            same budgets and the search for repair locality over the whole suffix.
        allocators: instead of the sweep's, variants too.
        budgets: percentages of the retained suffix, instead of the sweep's.
        cases: roster of cases; None for "embedded" on embedded models and "paper-96" on all others.
        lengths: context lengths in tokens, instead of the roster's.
        auxiliary: the model whose states SpecCache scores; None for `model` itself (the paper: Llama-3.2-1B-Instruct).
    """

    sweep: Literal["default", "demo", "complete", "questions", "locality"] = "default"
    allocators: Names | None = None
    budgets: Budgets | None = None
    cases: str | None = None
    lengths: Lengths | None = None
    auxiliary: str | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_known("cases", self.cases, ROSTERS)
        for allocator in self.allocators or ():
            check_rule(allocator)
        for key, values in (("allocators", self.allocators), ("budgets", self.budgets), ("lengths", self.lengths)):
            check_distinct(key, values)
        self.roster()
        return self

    def arms(self) -> tuple[Arm, ...]:
        """The four references, then every allocator at every budget."""
        allocators, budgets = _SWEEPS[self.sweep]()
        arms = sweep_arms(self.allocators or allocators, self.budgets or budgets)
        return (*arms, Arm(allocator=LOCALITY, budget=100.0)) if self.sweep == "locality" else arms

    def roster(self) -> NiahRoster:
        """The roster to build, with its lengths replaced where the run names its own."""
        roster = ROSTERS[self.cases or ("embedded" if self.model in EMBEDDED else "paper-96")]
        if self.lengths is not None:
            roster = replace(roster, lengths=tuple(sorted(self.lengths)))
        return roster if self.seed is None else replace(roster, first_seed=self.seed)

    def check_model(self) -> None:
        """Check that the models exist and hold every length; reads its configuration, not its weights.

        Raises:
            InputError: an unknown model, a folder without weights, or a length the model cannot hold.
        """
        roster = self.roster()
        limits = {self.model: self.limit()}
        if self.auxiliary is not None:
            limits.setdefault(self.auxiliary, context_limit(self.auxiliary))
        for model, limit in limits.items():
            for length in roster.lengths:
                if limit is not None and length + roster.max_new_tokens > limit:
                    raise InputError(
                        f"length {length} and {roster.max_new_tokens} new tokens exceed the {limit} tokens that model "
                        f"{model!r} holds; choose others with --set lengths=..."
                    )
