"""The arms of the numerical controls, and what their rows share of their identity."""

from dataclasses import asdict, dataclass
from typing import Any

from cachemend.repair_core.arms import REFERENCES, Arm
from cachemend.repair_core.errors import InputError
from cachemend.repair_core.executors import REPAIRING
from cachemend.tasks.identity import SharedIdentity

EXPERIMENT = "numerical-controls"
SUBJECT = "sur"
NO_EXECUTOR = "none"
NATIVE = "packed"
"""The executor whose low-precision error is the measure of the others'."""


@dataclass(frozen=True, kw_only=True)
class PathArm:
    """One way to a cache of the edited context.

    Attributes:
        path: "shift", "replay", "re-prefill", or "sur" with a budget and an executor.
        budget: percent of the retained suffix; None for references.
        executor: how the chosen rows are recomputed; "none" for references.
    """

    path: str
    budget: float | None = None
    executor: str = NO_EXECUTOR

    def __post_init__(self) -> None:
        Arm(allocator=self.path, budget=self.budget)
        if self.path not in (SUBJECT, *REFERENCES) or self.path == "dirty":
            raise InputError(f"path {self.path!r} is unknown; give shift, replay, re-prefill or {SUBJECT}")
        if (self.executor == NO_EXECUTOR) != (self.budget is None):
            raise InputError(f"path {self.path!r} with executor {self.executor!r}: only {SUBJECT} has one")
        if self.budget is not None and self.executor not in REPAIRING:
            raise InputError(f"executor {self.executor!r} repairs nothing; give one of {', '.join(REPAIRING)}")

    @property
    def name(self) -> str:
        own = Arm(allocator=self.path, budget=self.budget).name
        return own if self.budget is None else f"{own} {self.executor}"


RE_PREFILL = PathArm(path="re-prefill")
PATHS = (RE_PREFILL, PathArm(path="replay"), PathArm(path="shift"))


def sur_arms(budgets: tuple[float, ...], executors: tuple[str, ...]) -> tuple[PathArm, ...]:
    """SUR at every budget by every executor."""
    return tuple(PathArm(path=SUBJECT, budget=budget, executor=name) for budget in budgets for name in executors)


@dataclass(frozen=True, kw_only=True)
class NumericIdentity(SharedIdentity):
    """What the rows of one study share; the executor is the arm's."""

    def of(self, case_digest: str, arm: PathArm) -> dict[str, Any]:
        """The identity columns of one arm of one case."""
        own = {"path": arm.path, "budget": arm.budget, "executor": arm.executor, "arm": arm.name}
        return {**asdict(self), "case_digest": case_digest, **own}
