"""A seed scenario: two or three cached answers, and requests each of which exactly one of them fits."""

from dataclasses import dataclass
from typing import NamedTuple

from cachemend.datasets.seed_kinds import Change


class Turn(NamedTuple):
    """A request and the context it came in."""

    query: str
    context: str


@dataclass(frozen=True, kw_only=True)
class Side:
    """One state of the scenario: what was asked and answered in it, and further requests in the same state.

    Attributes:
        change: what its requests change against the side before (the last side, for the first).
        cached: the request that was answered.
        response: the answer.
        probes: later requests, for which this answer is right and that of the side before is wrong.
    """

    change: Change
    cached: Turn
    response: str
    probes: tuple[Turn, ...]


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One cluster of the seed set.

    Every request stands in one pair with the answer that fits it and in one with the answer of the side before.
    So neither a request alone nor an answer alone says which label a pair has.
    """

    name: str
    sides: tuple[Side, ...]

    def __post_init__(self) -> None:
        if len(self.sides) < 2 or len({len(side.probes) for side in self.sides}) != 1:
            raise ValueError(f"scenario {self.name!r} needs two or more sides with equally many probes")


def changed(context: str, *facts: str) -> str:
    """Return `context` with each ``key: value`` fact in the place of the line with that key, or at the end.

    Raises:
        ValueError: a key that several lines have.
    """
    lines = context.split("\n")
    for fact in facts:
        key = fact.partition(":")[0] + ":"
        places = [place for place, line in enumerate(lines) if line.startswith(key)]
        if len(places) > 1:
            raise ValueError(f"{key!r} begins {len(places)} lines")
        if places:
            lines[places[0]] = fact
        else:
            lines.append(fact)
    return "\n".join(lines)
