"""Cheap features of an edit, known before any forward (edit paper, "Repair Should Be Unconditional")."""

import re

from cachemend.datasets.edit_case import EditCase
from cachemend.datasets.edit_family import CONDITIONS

_WORD = re.compile(r"\w+")


def edit_distance(a: str, b: str) -> int:
    """Return the least number of characters to insert, delete or change to turn `a` into `b` (Levenshtein)."""
    row = list(range(len(b) + 1))
    for i, left in enumerate(a, 1):
        previous, row[0] = row[0], i
        for j, right in enumerate(b, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (left != right))
    return row[-1]


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _occurrences(words: list[str], of: str) -> float:
    """How often the words of `of` occur among `words`."""
    wanted = set(_words(of))
    return float(sum(word in wanted for word in words))


def _shared_prefix(a: str, b: str) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def edit_features_of(case: EditCase) -> dict[str, float]:
    """Return the features of a case by name, in a fixed order: its edit type, and what a trigger sees of it.

    The edit type is known by design alone; the edit paper has it as a feature, too.
    """
    kinds = {f"is_{condition}": float(case.condition == condition) for condition in CONDITIONS}
    return kinds | observable_features(case)


def observable_features(case: EditCase) -> dict[str, float]:
    """Return what a trigger in production sees, by name. Lengths are in tokens, `*_chars` in characters.

    It sees the edit, both contexts, the documents and the question; never an answer, where it stands, or what kind of
    edit it is.
    """
    old, new = case.old_span_text, case.new_span_text
    context, query = _words(case.context_text), _words(case.query_text)
    distance = edit_distance(old, new)
    span = range(*case.span)
    return {
        "relative_position": case.span.start / case.n_tokens,
        "context_length": float(case.n_tokens),
        "downstream_length": float(case.n_tokens - case.span.stop),
        "span_length": float(len(span)),
        "changed_tokens": float(sum(case.original_ids[i] != case.edited_ids[i] for i in span)),
        "rest_of_block_length": float(case.block_stop - case.span.stop),
        "query_length": float(len(case.relevance_ids)),
        "old_chars": float(len(old)),
        "new_chars": float(len(new)),
        "old_words": float(len(_words(old))),
        "new_words": float(len(_words(new))),
        "edit_distance_chars": float(distance),
        "edit_distance_share": distance / max(len(old), len(new)),
        "shared_prefix_chars": float(_shared_prefix(old, new)),
        "new_in_query": _occurrences(query, new),
        "old_in_query": _occurrences(query, old),
        "new_in_context": _occurrences(context, new),
        "old_in_context": _occurrences(context, old),
    }
