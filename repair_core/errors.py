"""The two errors a user can cause, each one clear line."""

from collections.abc import Iterable
from difflib import get_close_matches


class InputError(ValueError):
    """Bad input: one line that names the input, the value given and what would be right."""


class Refused(InputError):
    """The input is well-formed, but this model or cache cannot be repaired; the line names the reason."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint such as ``did you mean 'sur'? `` for an unknown `name`; empty where nothing is close."""
    close = get_close_matches(str(name), sorted(known), n=1, cutoff=0.4)
    return f"did you mean {close[0]!r}? " if close else ""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint such as ``did you mean 'sur'? known: a, b`` for an unknown `name`."""
    names = sorted(known)
    return f"{did_you_mean(name, names)}known: {', '.join(names)}"
