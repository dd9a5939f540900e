"""The needles: invented names and the two values a case gives one of them."""

from typing import NamedTuple

from cachemend.datasets.seeded import below

_COLOURS = ("amber", "cobalt", "crimson", "ivory", "jade", "indigo", "onyx", "russet", "saffron", "teal")
_ANIMALS = ("falcon", "stoat", "lynx", "gannet", "badger", "condor", "ibex", "marten", "osprey", "tapir")

NAMES: tuple[str, ...] = tuple(f"{colour} {animal}" for colour in _COLOURS for animal in _ANIMALS)


class Facts(NamedTuple):
    """One name and its two values, in text order; the values differ in their first digit."""

    name: str
    values: tuple[str, str]


def draw_facts(seed: int, length: int, digits: int) -> Facts:
    """Draw the name and both values of a case.

    No value starts with 0, both have `digits` digits and they differ in the first, so neither contains the
    other and the first token of a right answer already tells them apart.
    """
    name = NAMES[below(len(NAMES), seed, length, "name")]
    lead = 1 + below(9, seed, length, "lead", 0)
    other = 1 + (lead - 1 + 1 + below(8, seed, length, "lead", 1)) % 9
    tails = [
        "".join(str(below(10, seed, length, "digit", which, place)) for place in range(digits - 1))
        for which in range(2)
    ]
    return Facts(name, (f"{lead}{tails[0]}", f"{other}{tails[1]}"))
