"""The settings of a run of the numerical controls, and their validation before any work starts."""

from dataclasses import replace
from typing import Literal, Self

from pydantic import Field, model_validator

from cachemend.datasets.niah_rosters import ROSTERS
from cachemend.datasets.niah_spec import NiahRoster
from cachemend.flows.config import Budgets
from cachemend.flows.model_config import Lengths, ModelConfig, Names, check_distinct, check_known
from cachemend.repair_core.embedded import EMBEDDED
from cachemend.repair_core.errors import InputError
from cachemend.repair_core.executors import REPAIRING
from cachemend.tasks.numerics.arms import NATIVE, PATHS, PathArm, sur_arms

STUDIES = ("repeats", "probes", "bound")


class NumericalConfig(ModelConfig):
    """The settings of the numerical controls (paper sections 11, 13.5 and 14), on Erasing-NIAH cases.

    Attributes:
        study: "repeats" (three builds of every path, three decodes from one cache), "probes" (executors against each
            other, and BF16 or FP16 against FP32), "bound" (residual error and its bound in every layer), or "all".
        budgets: percentages of the retained suffix that SUR recomputes.
        executors: how; "bound" looks at the packed one alone.
        cases: roster of cases; None for "embedded" on embedded models and "paper-96" on all others.
        lengths: context lengths in tokens, instead of the roster's.
    """

    study: Literal["all", "repeats", "probes", "bound"] = "all"
    budgets: Budgets = Field(default=(5.0,))
    executors: Names = REPAIRING
    cases: str | None = None
    lengths: Lengths | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_known("cases", self.cases, ROSTERS)
        for key in ("budgets", "executors", "lengths"):
            check_distinct(key, getattr(self, key))
        for executor in self.executors:
            check_known("executors", executor, REPAIRING)
        if self.executor != NATIVE:
            raise InputError(f"executor {self.executor!r}: executors are compared here; give executors=... instead")
        if min(self.budgets) <= 0:
            raise InputError(f"budgets {list(self.budgets)}: nothing is recomputed at 0 %; give percentages above 0")
        self.roster()
        return self

    @property
    def studies(self) -> tuple[str, ...]:
        """The studies to run, in order."""
        return STUDIES if self.study == "all" else (self.study,)

    def arms(self, study: str) -> tuple[PathArm, ...]:
        """The arms of a study."""
        if study == "bound":
            return sur_arms(self.budgets, (NATIVE,))
        swept = sur_arms(self.budgets, self.executors)
        return (*PATHS, *swept) if study == "repeats" else swept

    def roster(self) -> NiahRoster:
        """The roster to build, with its lengths replaced where the run names its own."""
        roster = ROSTERS[self.cases or ("embedded" if self.model in EMBEDDED else "paper-96")]
        if self.lengths is not None:
            roster = replace(roster, lengths=tuple(sorted(self.lengths)))
        return roster if self.seed is None else replace(roster, first_seed=self.seed)
