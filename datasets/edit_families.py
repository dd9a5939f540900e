"""The named record families. Wordings are chosen on development seeds, never on reported ones.

The embedded model answers few two-hop questions whose aliases and values are invented words. So subjects are invented,
aliases are colours, and values are given names or drinks: what a record says is invented, and the builder sees to it
that none of these words stands in the background. Those of one roster have the same number of tokens under the embedded
model's tokenizer; where another tokenizer parts two of them differently, the builder drops the pair.
"""

from cachemend.datasets.edit_family import Family

_SUBJECTS: tuple[str, ...] = (
    "Orvane",
    "Quessby",
    "Haldrin",
    "Corvath",
    "Dunsworth",
    "Elmrath",
    "Fenwyle",
    "Garlock",
    "Joskin",
    "Kelbray",
    "Nettlam",
    "Tilmark",
)
_COLOURS: tuple[str, ...] = (
    "red",
    "blue",
    "yellow",
    "black",
    "orange",
    "purple",
    "pink",
    "gray",
    "silver",
    "golden",
    "violet",
    "scarlet",
    "indigo",
    "ivory",
    "bronze",
    "amber",
    "coral",
    "turquoise",
    "lavender",
    "navy",
    "olive",
    "cyan",
)
_PEOPLE: tuple[str, ...] = (
    "Carlos",
    "Gustav",
    "Helena",
    "Ivan",
    "Julia",
    "Laura",
    "Oscar",
    "Stefan",
    "Teresa",
    "Hugo",
    "Clara",
    "Peter",
    "Thomas",
    "Lucas",
    "Sofia",
    "Victor",
    "Diana",
    "Albert",
    "Simon",
    "Martha",
    "Boris",
    "Felix",
    "Edgar",
    "Adam",
)
_DRINKS: tuple[str, ...] = ("wine", "milk", "oil", "juice", "beer", "vinegar", "cider", "rum", "syrup")
_DAYS: tuple[str, ...] = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def _family(name: str, thing: str, kind: str, verb: str, question: str, values: tuple[str, ...]) -> Family:
    """A record of a thing of the subject: which of two it is (the alias), and what holds of each (the values)."""
    derived = f"{thing} is the {{alias}} {kind}."
    answer = f"{thing} {verb}"
    row = f"The {{{{alias_{{0}}}}}} {kind} of {{{{subject}}}} {verb} {{{{value_{{0}}}}}}."
    return Family(
        name=name,
        direct=f"{answer} {{value}}.",
        derived=derived,
        carrier=f"{row.format(1)} {row.format(2)}",
        irrelevant=f"Written on {{note}}. {derived}",
        question=f"Question: {question}",
        closing=f"\nAnswer: {answer}",
        chat_closing=answer,
        subjects=_SUBJECTS,
        aliases=_COLOURS,
        values=values,
        notes=_DAYS,
    )


DOG = _family("dog-name", "The dog of {subject}", "dog", "is called", "What is the dog of {subject} called?", _PEOPLE)
HORSE = _family(
    "horse-name",
    "The fastest horse of {subject}",
    "horse",
    "is called",
    "What is the fastest horse of {subject} called?",
    _PEOPLE,
)
BOAT = _family(
    "boat-name",
    "The rescue boat of {subject}",
    "boat",
    "is named",
    "What is the rescue boat of {subject} named?",
    _PEOPLE,
)
TEAM = _family(
    "team-trainer",
    "The home team of {subject}",
    "team",
    "is trained by",
    "Who trains the home team of {subject}?",
    _PEOPLE,
)
CUP = _family(
    "cup-drink",
    "The royal cup of {subject}",
    "cup",
    "is filled with",
    "What is the royal cup of {subject} filled with?",
    _DRINKS,
)

FAMILIES: dict[str, Family] = {family.name: family for family in (DOG, HORSE, BOAT, TEAM, CUP)}
