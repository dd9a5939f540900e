"""What the guards look at: both sides read, and the records that only one side has."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from cachemend.calibration.conditions.extracting import HIGH_RISK, Condition, Texts
from cachemend.calibration.conditions.lexicon import Lexicon
from cachemend.calibration.conditions.reading import Reading, Values

Key = tuple[str, str, str]


class Clash(NamedTuple):
    """Two values that contradict each other; "" for what one side lacks."""

    cache_value: str
    request_value: str


Clashes = Sequence[Clash]


class Evidence(NamedTuple):
    """Both sides of a candidate as the guards see them.

    Attributes:
        cache: the cached side's texts, response included.
        request: the request's texts.
        lexicon: the words the texts were read by.
        ours: the cached side's records.
        theirs: the request's.
        lost: values by (category, subject, relation) of records that the cached side alone has.
        gained: the same of records that the request alone has.
        kept: keys of which at least one record is on both sides.
        changed: keys of high-risk records that both sides have and that share no value, sorted.
        layers: texts to compare with each other: the two queries, and the two contexts.
    """

    cache: Texts
    request: Texts
    lexicon: Lexicon
    ours: frozenset[Condition]
    theirs: frozenset[Condition]
    lost: Mapping[Key, Values]
    gained: Mapping[Key, Values]
    kept: frozenset[Key]
    changed: tuple[Key, ...]
    layers: tuple[tuple[Reading, Reading], tuple[Reading, Reading]]


def compare(
    cache: Texts,
    request: Texts,
    cache_conditions: Iterable[Condition],
    request_conditions: Iterable[Condition],
    lexicon: Lexicon,
) -> Evidence:
    """Compare two sides; equal records drop out here, so that no rule on records can trigger on them."""
    ours, theirs = frozenset(cache_conditions), frozenset(request_conditions)
    lost, gained = _by_key(ours - theirs), _by_key(theirs - ours)
    kept = frozenset(condition[:3] for condition in ours & theirs)
    changed = tuple(sorted(key for key in lost if key[0] in HIGH_RISK and key in gained and key not in kept))
    layers = (cache.query, request.query), (cache.context, request.context)
    return Evidence(cache, request, lexicon, ours, theirs, lost, gained, kept, changed, layers)


def clash(first: Iterable[str], second: Iterable[str]) -> Clash:
    """Return the values of either side on one line each, sorted."""
    return Clash(", ".join(sorted(first)), ", ".join(sorted(second)))


def _by_key(conditions: Iterable[Condition]) -> Mapping[Key, Values]:
    found: dict[Key, set[str]] = {}
    for condition in conditions:
        found.setdefault(condition[:3], set()).add(condition.value)
    return {key: frozenset(values) for key, values in found.items()}
