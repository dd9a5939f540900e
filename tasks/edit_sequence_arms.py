"""The arms of a context with several edits: how they are made, and what is recomputed for each."""

from dataclasses import dataclass

from cachemend.repair_core.errors import InputError
from cachemend.tasks.edit_arms import deployable, own_length

AT_ONCE, SUCCESSIVE, LIMITED = MODES = ("at-once", "successive", "successive-limit")


@dataclass(frozen=True, kw_only=True)
class SequenceArm:
    """One way to repair several edits.

    Attributes:
        mode: "at-once" (one repair for all edits), "successive" (a repair after each edit, on the cache the last one
            left), or the same with a staleness limit.
        policy: a deployable policy, applied to every edit; "span" for the edit spans alone.
        k: downstream positions per edit; None for "span" and for rules that set their own length.
        staleness_limit: the most edits that a row may have missed; None exactly without a limit.
    """

    mode: str
    policy: str
    k: int | None = None
    staleness_limit: int | None = None

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise InputError(f"mode {self.mode!r} is none of {', '.join(MODES)}")
        if (self.mode == LIMITED) != (self.staleness_limit is not None):
            raise InputError(f"mode {self.mode!r} with staleness limit {self.staleness_limit}: only {LIMITED} has one")
        if not deployable(self.policy):
            raise InputError(f"policy {self.policy!r} knows the truth of one edit; several edits need a deployable one")
        if (self.policy == "span" or own_length(self.policy)) != (self.k is None):
            raise InputError(f"sequence arm {self.policy!r} with k {self.k}: give K exactly where the policy takes one")

    @property
    def name(self) -> str:
        own = self.policy if self.k is None else f"{self.policy}@{self.k}"
        limit = "" if self.staleness_limit is None else f"<={self.staleness_limit}"
        return f"{self.mode}{limit}:{own}"
