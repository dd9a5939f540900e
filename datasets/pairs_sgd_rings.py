"""Rings of turns that ask for the same thing in states that differ: each turn's answer holds for none of the others."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from cachemend.datasets.pairs_sgd_turns import AnswerTurn
from cachemend.datasets.seeded import draw, shuffled

# Three turns a ring give six pairs: more would put too many pairs into one cluster.
LONGEST = 3


class Link(NamedTuple):
    """A place in a ring: the turn whose answer is cached, and the turn of equal state that asks for it again."""

    cached: AnswerTurn
    again: AnswerTurn


Ring = tuple[Link, ...]


class Line(NamedTuple):
    """Turns whose states differ in one slot only.

    Attributes:
        slot: the free slot of what the answers rest on.
        values: its values, at least two.
        turns: the turns of each value.
    """

    slot: str
    values: tuple[str, ...]
    turns: tuple[tuple[AnswerTurn, ...], ...]


def agree(one: AnswerTurn, other: AnswerTurn) -> bool:
    """Whether two answers say the same: equal values of every slot; the number of finds may go unsaid in either."""
    first, second = _said(one), _said(other)
    counts = {values for said in (first, second) for key, values in said.items() if key[0] == "INFORM_COUNT"}
    return _without_counts(first) == _without_counts(second) and len(counts) < 2


def contradict(one: AnswerTurn, other: AnswerTurn) -> bool:
    """Whether two answers give different values to a slot both speak of."""
    first, second = _without_counts(_said(one)), _without_counts(_said(other))
    return any(first[key] != second[key] for key in first.keys() & second.keys())


def _said(turn: AnswerTurn) -> dict[tuple[str, str], str]:
    return {(act, slot): values for act, slot, values in turn.answer}


def _without_counts(said: dict[tuple[str, str], str]) -> dict[tuple[str, str], str]:
    return {key: values for key, values in said.items() if key[0] != "INFORM_COUNT"}


def lines(turns: Sequence[AnswerTurn], *, seed: int) -> list[Line]:
    """Group turns whose states differ in one slot only; lines, their values and the turns are in seeded orders."""
    found: dict[tuple[object, ...], dict[str, list[AnswerTurn]]] = defaultdict(lambda: defaultdict(list))
    for turn in sorted(turns, key=lambda turn: (draw(seed, "sgd", "turn", turn.name), turn.name)):
        for slot, value in turn.basis:
            rest = tuple(item for item in turn.basis if item[0] != slot)
            found[slot, turn.key, rest][value].append(turn)
    keys = [key for key, values in found.items() if len(values) > 1]
    keys.sort(key=lambda key: (draw(seed, "sgd", "line", repr(key)), repr(key)))
    made = []
    for key in keys:
        values = tuple(shuffled(found[key], seed, "sgd", repr(key)))
        made.append(Line(str(key[0]), values, tuple(tuple(found[key][value]) for value in values)))
    return made


def rings_across(all_lines: Sequence[Line], used: set[str], *, natural: bool) -> Iterator[Ring]:
    """Yield rings of two or three turns of one line, each from a dialogue of its own.

    Args:
        all_lines: as `lines` gives them.
        used: the dialogues that are taken; those of every ring are added as it is yielded.
        natural: the turn that asks again is another dialogue's, of equal state and with an agreeing answer; otherwise
            it is the cached turn itself.
    """
    remaining = list(all_lines)
    while remaining:
        fruitful = []
        for line in remaining:
            ring = _ring_of(line, used, natural=natural)
            if len(ring) > 1:
                used.update(turn.dialogue for link in ring for turn in link)
                fruitful.append(line)
                yield ring
        remaining = fruitful


def _ring_of(line: Line, used: set[str], *, natural: bool) -> Ring:
    ring: list[Link] = []
    taken = set(used)
    for turns in line.turns:
        free = [turn for turn in turns if turn.dialogue not in taken]
        if natural:
            pairs = ((a, b) for a, b in combinations(free, 2) if a.dialogue != b.dialogue and agree(a, b))
        else:
            pairs = ((turn, turn) for turn in free)
        link = next((Link(*pair) for pair in pairs if _stands_apart(Link(*pair), ring)), None)
        if link is not None:
            ring.append(link)
            taken.update(turn.dialogue for turn in link)
        if len(ring) == LONGEST:
            break
    return tuple(ring)


def _stands_apart(link: Link, ring: Sequence[Link]) -> bool:
    """Whether a link's turns contradict every turn that is in the ring already."""
    return all(contradict(turn, other) for turn in link for place in ring for other in place)


def rings_within(turns: Sequence[AnswerTurn], used: set[str], *, seed: int) -> Iterator[Ring]:
    """Yield rings of two turns of one dialogue between which a value that the answer rests on was changed.

    At most one a dialogue, in a seeded order; `used` as for `rings_across`.
    """
    by_dialogue: dict[str, list[AnswerTurn]] = defaultdict(list)
    for turn in turns:
        by_dialogue[turn.dialogue].append(turn)
    for dialogue in sorted(by_dialogue, key=lambda name: (draw(seed, "sgd", "within", name), name)):
        found = [
            (Link(first, first), Link(second, second))
            for first, second in combinations(by_dialogue[dialogue], 2)
            if first.key == second.key and _changed(first, second) and contradict(first, second)
        ]
        if found and dialogue not in used:
            used.add(dialogue)
            yield min(found, key=lambda ring: draw(seed, "sgd", "within", ring[0].cached.name, ring[1].cached.name))


def _changed(first: AnswerTurn, second: AnswerTurn) -> bool:
    one, other = dict(first.basis), dict(second.basis)
    return any(one[slot] != other[slot] for slot in one.keys() & other.keys())
