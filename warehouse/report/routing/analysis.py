"""Rows of the routing analysis views, typed; columns as in the views."""

from datetime import datetime
from typing import NamedTuple


class Arm(NamedTuple):
    """A method at an operating point."""

    method: str
    setting: str


class Point(NamedTuple):
    """A method and setting on the safety-utility plane."""

    method: str
    setting: str
    exposures: int
    accepted: int
    n_valid: int
    n_invalid: int
    n_splits: int
    vchr: float | None
    vchr_low: float | None
    vchr_high: float | None
    fh: float | None
    fh_low: float | None
    fh_high: float | None
    verifier_rate: float | None
    demand_rate: float | None
    relative_cost: float | None
    n_without_hits: int
    n_abstained: int
    observations_mean: float | None
    observations_max: int | None
    observations_ready: float | None
    run_id: str
    recorded_at: datetime

    @property
    def arm(self) -> Arm:
        """The method and setting."""
        return Arm(self.method, self.setting)


class Risk(NamedTuple):
    """Pooled held-out counts with their bounds."""

    method: str
    setting: str
    n_splits: int
    accepted: int
    n_invalid: int
    rate: float | None
    wilson_upper: float
    exact_upper: float
    distinct_accepted: int
    distinct_invalid: int
    distinct_upper: float
    splits_over_alpha: int

    @property
    def arm(self) -> Arm:
        """The method and setting."""
        return Arm(self.method, self.setting)


class Comparison(NamedTuple):
    """The router's reference setting minus a comparator."""

    reference: str
    method: str
    setting: str
    claim: str
    d_vchr: float | None
    d_vchr_low: float | None
    d_vchr_high: float | None
    d_fh: float | None
    d_fh_low: float | None
    d_fh_high: float | None
    p_vchr: float | None
    p_fh: float | None
    p_joint: float | None
    p_holm: float | None
    family_size: int
    p_swap_vchr: float | None
    p_swap_fh: float | None

    @property
    def arm(self) -> Arm:
        """The comparator."""
        return Arm(self.method, self.setting)


class Part(NamedTuple):
    """Pooled counts within one change family, or within one source."""

    method: str
    setting: str
    source: str
    family: str
    exposures: int
    accepted: int
    n_valid: int
    n_invalid: int
    vchr: float | None
    fh: float | None
    fh_upper: float

    @property
    def arm(self) -> Arm:
        """The method and setting."""
        return Arm(self.method, self.setting)


class Ablation(NamedTuple):
    """The router with one part left out."""

    ablation: str
    setting: str
    accepted: int
    n_invalid: int
    vchr: float | None
    fh: float | None
    d_vchr: float | None
    d_fh: float | None


class Order(NamedTuple):
    """The same policies under another request order."""

    setting: str
    request_order: str
    accepted: int
    n_invalid: int
    vchr: float | None
    fh: float | None
    verifier_rate: float | None
    over_budget: int


class Frozen(NamedTuple):
    """Policies as selected, or with one thing exchanged at test."""

    setting: str
    exchanged: str
    exposures: int
    accepted: int
    n_valid: int
    n_invalid: int
    n_verified: int
    vchr: float | None
    fh: float | None
    d_vchr: float | None
    d_fh: float | None


class Quality(NamedTuple):
    """Verdicts against labels in one region."""

    region: str
    n: int
    ta: int
    tr: int
    fa: int
    fr: int
    agreement: float | None
    p_chance: float | None
    flag: str | None
    n_malformed: int
    n_failed: int


class Ranked(NamedTuple):
    """How well a signal ranks invalid reuse."""

    signal: str
    source: str
    n: int
    n_invalid: int
    auroc: float | None
    auroc_low: float | None
    auroc_high: float | None
    auprc: float | None


class Probe(NamedTuple):
    """How well one side of the pairs of a source alone tells the label."""

    source: str
    side: str
    n: int
    auroc: float | None
    within_target: bool | None


class MapRow(NamedTuple):
    """A bin of the risk map, its summary, a stratum, or a count of conflicts."""

    kind: str
    name: str
    n: int
    predicted: float | None
    observed: float | None
    ece: float | None
    brier: float | None


class Stress(NamedTuple):
    """Adversarial inputs for which a cached response was returned."""

    method: str
    setting: str
    n: int
    n_hits: int
    n_verified: int
    hit_rate: float | None
    upper: float

    @property
    def arm(self) -> Arm:
        """The method and setting."""
        return Arm(self.method, self.setting)


class Certified(NamedTuple):
    """A certified setting over all splits."""

    method: str
    setting: str
    procedure: str
    alpha: float
    delta: float | None
    n_splits: int
    n_abstained: int
    mean_clusters: float | None
    certifiable: float | None
    vchr: float | None
    fh: float | None
    d_vchr: float | None
    n_violations: int | None

    @property
    def arm(self) -> Arm:
        """The method and setting."""
        return Arm(self.method, self.setting)


class Decision(NamedTuple):
    """What the router at one setting decided about one pair, over the splits that held it out.

    `n` is the number of those splits, `accepted` that of those in which the cached response was returned.
    """

    case_digest: str
    method: str
    setting: str
    n: int
    reuse: int
    verify: int
    regenerate: int
    accepted: int

    @property
    def arm(self) -> Arm:
        """The method and setting."""
        return Arm(self.method, self.setting)
