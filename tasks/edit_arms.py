"""The arms of an edit-repair item: a policy at a budget K, recomputed or transplanted, or a reference."""

from collections.abc import Sequence
from dataclasses import dataclass

from cachemend.repair_core.errors import InputError
from cachemend.repair_core.policies import get_policy

REFERENCES = ("stale", "span", "clean")
OPERATORS = ("recompute", "transplant", "none")


@dataclass(frozen=True, kw_only=True)
class EditArm:
    """One evaluated coordinate (edit paper, "The repair interface", "Transplant is not recomputation").

    Attributes:
        policy: a policy's or diagnostic's name, or a reference: "stale" (no repair), "span" (K = 0) or "clean"
            (a prefill of the edited context).
        k: downstream positions besides the span; None for references and for rules that set their own length.
        operator: "recompute", or "transplant" from the clean cache; "none" for stale and clean.
        recorded: the positions that an earlier run chose for this policy and K, which must be chosen again; None
            where nothing is replayed. Not part of the arm's name.
        unconditional: run on items that are not retained, too. Not part of the arm's name.
    """

    policy: str
    k: int | None = None
    operator: str = "recompute"
    recorded: tuple[int, ...] | None = None
    unconditional: bool = False

    def __post_init__(self) -> None:
        unbudgeted = self.policy in REFERENCES or own_length(self.policy)
        if unbudgeted != (self.k is None):
            told = "takes no K" if unbudgeted else "needs a K"
            raise InputError(f"edit arm {self.policy!r} with k {self.k}: it {told}")
        if self.k is not None and self.k < 0:
            raise InputError(f"k {self.k} is negative; give the number of downstream positions to recompute")
        if self.operator not in OPERATORS or (self.operator == "none") != (self.policy in ("stale", "clean")):
            raise InputError(f"operator {self.operator!r} does not fit edit arm {self.policy!r}")

    @property
    def name(self) -> str:
        own = self.policy if self.k is None else f"{self.policy}@{self.k}"
        return f"transplant:{own}" if self.operator == "transplant" else own

    @property
    def is_reference(self) -> bool:
        return self.policy in REFERENCES


STALE, SPAN, CLEAN = EDIT_REFERENCES = (
    EditArm(policy="stale", operator="none"),
    EditArm(policy="span"),
    EditArm(policy="clean", operator="none"),
)


def own_length(policy: str) -> bool:
    """Whether a policy sets its own length. A reference's is fixed."""
    return policy not in REFERENCES and get_policy(policy).own_length


def deployable(policy: str) -> bool:
    """Whether a policy sees neither the clean cache nor the answers."""
    return policy in ("stale", "span", "clean") or get_policy(policy).deployable


def policy_arms(policies: Sequence[str], ks: Sequence[int], operator: str = "recompute") -> tuple[EditArm, ...]:
    """Every policy at every K; rules with their own length once."""
    return tuple(
        EditArm(policy=policy, k=k, operator=operator)
        for policy in policies
        for k in ((None,) if own_length(policy) else ks)
    )
