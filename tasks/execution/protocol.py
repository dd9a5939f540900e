"""How often something is timed, and a sample as columns."""

from dataclasses import dataclass
from typing import Any

from cachemend.repair_core.errors import InputError
from cachemend.tasks.bench.sampling import Sample


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """Warm-ups and timed runs of every line, in an order drawn anew each round.

    Attributes:
        warmups: untimed rounds.
        repeats: timed rounds.
    """

    warmups: int
    repeats: int

    def __post_init__(self) -> None:
        if self.repeats < 1 or self.warmups < 0:
            raise InputError(f"{self.warmups} warm-ups and {self.repeats} repeats: give 0 or more and 1 or more")

    def columns(self) -> dict[str, Any]:
        """As columns of a row's key."""
        return {"n_warmup": self.warmups, "n_timed": self.repeats}


REFRESH = Protocol(warmups=10, repeats=20)
ATTENTION = Protocol(warmups=10, repeats=30)
RECOVERY = Protocol(warmups=2, repeats=5)
"""The paper's, sections 13.3 and 13.4."""


def sample_columns(sample: Sample | None, prefix: str = "seconds") -> dict[str, Any]:
    """Median and extremes as columns; all NULL where nothing was timed."""
    return {
        f"{prefix}_median": None if sample is None else sample.median,
        f"{prefix}_low": None if sample is None else sample.low,
        f"{prefix}_high": None if sample is None else sample.high,
    }
