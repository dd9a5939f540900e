"""A labelled pair: a cached answer, a new request, and whether the answer may be returned for it."""

import hashlib
from dataclasses import astuple, dataclass

from cachemend.calibration.candidate import Candidate
from cachemend.repair_core.errors import InputError

FAMILIES = (
    "dialogue-state",
    "tool-state",
    "freshness",
    "refusal-validity",
    "authorization",
    "semantic-collision",
)
POOLS = ("seed", "reconstruction", "hard", "stress", "log")


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One cache-probe pair (paper appendix A).

    Attributes:
        pair_id: unique in its pool.
        pool: one of `POOLS`.
        source: the data set it was built from.
        family: the kind of change, one of `FAMILIES`; "" where unknown.
        cluster: the source object it belongs to; splits never separate a cluster.
        rule: the name of the construction rule that gave the label.
        label: 1 where returning the cached response is right, 0 where it is not.
        q_cache: the cached request.
        r_cache: the cached response.
        context_cache: the context of the cached request.
        q_probe: the new request.
        context_probe: the context of the new request.
    """

    pair_id: str
    pool: str
    source: str
    family: str
    cluster: str
    rule: str
    label: int
    q_cache: str
    r_cache: str
    context_cache: str
    q_probe: str
    context_probe: str

    def __post_init__(self) -> None:
        if self.label not in (0, 1):
            raise InputError(f"pair {self.pair_id!r}: label {self.label!r} is not 0 (invalid) or 1 (valid)")
        if self.pool not in POOLS:
            raise InputError(f"pair {self.pair_id!r}: pool {self.pool!r} is not one of {', '.join(POOLS)}")
        if self.family and self.family not in FAMILIES:
            raise InputError(f"pair {self.pair_id!r}: family {self.family!r} is not one of {', '.join(FAMILIES)}")

    @property
    def candidate(self) -> Candidate:
        """The texts alone: what a router may see."""
        return Candidate(
            q_cache=self.q_cache,
            r_cache=self.r_cache,
            context_cache=self.context_cache,
            q_probe=self.q_probe,
            context_probe=self.context_probe,
        )

    @property
    def digest(self) -> str:
        """SHA-256 hex digest over all fields."""
        return hashlib.sha256("\x1f".join(map(str, astuple(self))).encode("utf-8", "surrogatepass")).hexdigest()
