"""Rows of the analysis views, typed; columns as in the views."""

from datetime import datetime
from typing import NamedTuple

from cachemend.warehouse.report.edits.names import PolicyArm


class Recovery(NamedTuple):
    """Margin recovery and Flip of one arm in one cell."""

    split: str
    condition: str
    distance: int
    family: str | None
    policy: str
    k: int | None
    operator: str
    n: int
    n_of: int
    n_retained: int
    mean: float | None
    low: float | None
    high: float | None
    median: float | None
    ratio_of_means: float | None
    ratio_low: float | None
    ratio_high: float | None
    flip_rate: float | None
    flip_low: float | None
    flip_high: float | None
    kl_recovery: float | None
    mean_positions: float | None
    diagnostic: bool
    evidence: str | None

    @property
    def arm(self) -> PolicyArm:
        """The arm."""
        return PolicyArm(self.policy, self.k, self.operator)

    @property
    def half_width(self) -> float | None:
        """Half of the interval's width."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2


class Contrast(NamedTuple):
    """A paired contrast of two policies in one cell, a minus b."""

    split: str
    condition: str
    distance: int
    family: str | None
    policy_a: str
    policy_b: str
    k: int | None
    n: int
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    p_holm: float | None
    family_size: int | None
    wins_05: int
    ties_05: int
    losses_05: int
    wins_01: int
    ties_01: int
    losses_01: int
    wins_10: int
    ties_10: int
    losses_10: int

    @property
    def reversed(self) -> "Contrast":
        """The same contrast, b minus a."""
        low, high = (None if end is None else -end for end in (self.high, self.low))
        return self._replace(
            policy_a=self.policy_b,
            policy_b=self.policy_a,
            difference=None if self.difference is None else -self.difference,
            low=low,
            high=high,
            **{f"wins_{band}": getattr(self, f"losses_{band}") for band in ("05", "01", "10")},
            **{f"losses_{band}": getattr(self, f"wins_{band}") for band in ("05", "01", "10")},
        )


class Distance(NamedTuple):
    """One arm at one distance, all wordings together."""

    split: str
    policy: str
    k: int | None
    diagnostic: bool
    distance: int
    n: int
    n_retained: int
    mean: float | None
    low: float | None
    high: float | None
    flip_rate: float | None
    mean_positions: float | None

    @property
    def arm(self) -> PolicyArm:
        """The arm."""
        return PolicyArm(self.policy, self.k)


class Operator(NamedTuple):
    """Recompute beside transplant on the same positions."""

    split: str
    condition: str
    distance: int
    policy: str
    k: int | None
    n: int
    mean_recompute: float
    mean_transplant: float
    share_recompute_worse: float
    effect_in_carrier: float | None
    effect_in_block: float | None
    oracle_depth: float | None

    @property
    def arm(self) -> PolicyArm:
        """The arm that recomputes."""
        return PolicyArm(self.policy, self.k)


class Trigger(NamedTuple):
    """A base rate of stale failure, a severity model, or what a gate would cost."""

    split: str
    kind: str
    subject: str
    condition: str | None
    share: float | None
    n: int | None
    n_groups: int | None
    rate: float | None
    low: float | None
    high: float | None
    rho: float | None
    rho_p: float | None
    r2: float | None
    failures: float | None
    seconds: float | None


class Decision(NamedTuple):
    """An arm in a cell of the decision table, on dev items or on held-out ones."""

    split: str
    stage: str
    cell: str
    policy: str
    k: int | None
    chosen: bool
    n: int
    mean: float | None
    low: float | None
    high: float | None
    mean_tokens: float | None
    share_re_prefilled: float | None

    @property
    def arm(self) -> PolicyArm:
        """The arm."""
        return PolicyArm(self.policy, self.k)


class Step(NamedTuple):
    """A probe asked after some edits of a sequence."""

    case_digest: str
    case_id: str
    split: str
    mode: str
    staleness_limit: int | None
    n_edits: int
    step: int
    probe: int
    policy: str
    k: int | None
    run_id: str
    recorded_at: datetime
    outcome: str
    error: str | None
    margin_recovery: float | None
    flip: bool | None
    tv_to_clean: float | None
    worst_staleness: int | None
    n_stale_rows: int | None
    n_refreshed_rows: int | None
    re_prefilled: bool | None

    @property
    def arm(self) -> PolicyArm:
        """The arm."""
        return PolicyArm(self.policy, self.k)

    @property
    def ok(self) -> bool:
        """Whether the arm ran to its end."""
        return self.outcome == "ok"


class Cost(NamedTuple):
    """A refresh beside a re-prefill timed in the same run."""

    model: str
    model_fingerprint: str
    dtype: str
    executor: str
    attention: str
    engine_version: int
    device: str
    length: int
    k: int
    copy: bool
    n_tokens: int
    span: int
    n_warmup: int
    n_timed: int
    refresh_seconds: float
    refresh_low: float
    refresh_high: float
    re_prefill_seconds: float | None
    ratio: float | None
    token_layer_ratio: float | None
    floor_ratio: float | None
