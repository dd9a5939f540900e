"""What every pair builder shares: its result, its seed, the arms, the ids and the label targets."""

import hashlib
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from cachemend.datasets.pair import Pair
from cachemend.datasets.seeded import below

SEED = 20_261_107
# One source object in three is kept for the hard arm, so the two arms share no dialogue and no question.
_HARD_ONE_IN = 3


class Built(NamedTuple):
    """The pairs of one source.

    Attributes:
        pairs: in a fixed order; ids are unique.
        rejects: what was not used, as counts by reason; a reason that never came up is absent.
    """

    pairs: tuple[Pair, ...]
    rejects: dict[str, int]


def in_hard_arm(source: str, key: str, *, seed: int) -> bool:
    """Whether a source object (a dialogue, a question) belongs to the hard arm rather than to the pool."""
    return below(_HARD_ONE_IN, seed, source, "arm", key) == 0


def text_id(source: str, *texts: str) -> str:
    """Return a pair id made of the pair's texts, so that neither the id nor an order by ids tells the label."""
    digest = hashlib.sha256("\x1f".join(texts).encode("utf-8", "surrogatepass")).hexdigest()
    return f"{source}-{digest[:12]}"


def first_of_each_label(pairs: Iterable[Pair], *, valid: int, invalid: int) -> Built:
    """Keep the first `valid` valid and the first `invalid` invalid pairs of different texts, in order."""
    room = {1: valid, 0: invalid}
    kept: dict[str, Pair] = {}
    rejects: Counter[str] = Counter()
    for pair in pairs:
        if pair.pair_id in kept:
            rejects["the same texts as another pair"] += 1
        elif room[pair.label] > 0:
            room[pair.label] -= 1
            kept[pair.pair_id] = pair
        else:
            rejects["beyond the label's target"] += 1
    return Built(tuple(kept.values()), dict(rejects))
