"""Scoring the answer after an in-place edit (edit paper, "What counts as repaired")."""

import re

from cachemend.repair_core.errors import InputError

FLIP_RULE = "flip/1"
MAX_NEW_TOKENS = 16


def mentions(text: str, name: str) -> bool:
    """Tell whether `text` holds `name` as whole words, in the same case.

    Raises:
        InputError: an empty name.
    """
    if not name:
        raise InputError("name is empty; give the answer to look for")
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None


def flips(answer: str, new: str, old: str) -> bool:
    """Tell whether an answer gives the new value and not the old one (edit paper, Eq. 3).

    A value counts where it stands at word boundaries in the same case: "Tarn" is not in "Tarnley". An answer with
    both values has not flipped, and an empty one has not either.

    Raises:
        InputError: an empty value.
    """
    return mentions(answer, new) and not mentions(answer, old)
