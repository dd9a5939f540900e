"""Other wordings of a Schema-Guided Dialogue utterance, by rule: a light one by phrases, a heavy one by the schema."""

import re

from cachemend.datasets.pairs_sgd_files import Schema
from cachemend.datasets.pairs_sgd_turns import AnswerTurn
from cachemend.datasets.seeded import below

# Replaced all at once, so no phrase is replaced twice; longer ones come first.
_PHRASES = {
    "i would like": "I'd like",
    "i'd like": "I would like",
    "i need to": "I have to",
    "i want": "I would like",
    "i need": "I am looking for",
    "i'm looking for": "I want",
    "i am looking for": "I want",
    "can you": "could you",
    "could you": "would you",
    "would you": "could you",
    "will you": "could you",
    "find me": "get me",
    "search for": "look for",
    "look for": "search for",
    "looking for": "searching for",
    "find": "look for",
    "tell me": "let me know",
    "what's": "what is",
    "what is": "what's",
    "is there": "do you have",
    "are there": "do you know of",
    "that's": "that is",
    "that is": "that's",
    "it's": "it is",
    "reserve": "book",
    "yes": "yeah",
    "yeah": "yes",
    "okay": "all right",
    "ok": "all right",
    "great": "very good",
    "perfect": "very good",
    "no": "nope",
    "also": "as well",
    "how about": "what about",
    "what about": "how about",
}
_PATTERN = re.compile(
    r"\b(?:" + "|".join(re.escape(p) for p in sorted(_PHRASES, key=len, reverse=True)) + r")\b", re.IGNORECASE
)
_FRAMES = ("Hello. {}", "{} Thanks.", "Just this: {}", "{} That would be it for now.")


def reworded(text: str, *labels: str | int) -> str:
    """Say `text` with its stock phrases exchanged; where it has none, inside a frame that the labels draw."""
    changed = _PATTERN.sub(_exchange, text)
    return changed if changed != text else _FRAMES[below(len(_FRAMES), *labels)].format(text)


def _exchange(match: re.Match[str]) -> str:
    said, other = match[0], _PHRASES[match[0].lower()]
    return other[0].upper() + other[1:] if said[0].isupper() else other


def schema_wording(turn: AnswerTurn, schema: Schema) -> str:
    """Say what a "search" or "inform" turn asks for, and what it states, in the schema's descriptions.

    Nothing of the state comes in that the utterance itself does not state.
    """
    if turn.kind == "inform":
        wanted = "; ".join(schema.slots[turn.service, slot] for slot in turn.asked)
        return f"Of that one, give me: {wanted}."
    stated = "".join(f" {schema.slots[turn.service, slot]}: {value}." for slot, value in turn.stated if slot)
    return f"{schema.lookups[turn.service, turn.intent]}.{stated}"
