"""What a benchmark should reach, and whether it did."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """One ratio of a run and its bound.

    Attributes:
        name: what was measured.
        value: the ratio.
        at_most, at_least: the bound; one of them.
    """

    name: str
    value: float
    at_most: float | None = None
    at_least: float | None = None

    @property
    def met(self) -> bool:
        above = self.at_least is None or self.value >= self.at_least
        return above and (self.at_most is None or self.value <= self.at_most)

    def __str__(self) -> str:
        bound = f"at most {self.at_most:g}" if self.at_most is not None else f"at least {self.at_least:g}"
        return f"{'PASS' if self.met else 'MISS'}  {self.value:6.2f}  {self.name} ({bound})"
