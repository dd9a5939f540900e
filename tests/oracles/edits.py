"""Edits by editing a list of tagged tokens, and row ledgers by simulating what every row was computed from."""

from typing import NamedTuple

VALID, STALE, REFRESHED, MISSING = "valid", "stale", "refreshed", "missing"


class Mapping(NamedTuple):
    """Where tokens of the original stand after an edit."""

    edited: list[int]
    prefix_length: int
    suffix: list[int]
    suffix_positions: list[int]
    suffix_original_positions: list[int]
    deleted_positions: list[int]
    inserted_positions: list[int]


def spliced(tokens: list, changes: list[tuple[int, int, list]]) -> list:
    """The list after (start, stop, replacement) changes, last one first so that earlier positions hold."""
    out = list(tokens)
    for start, stop, replacement in sorted(changes, reverse=True):
        out[start:stop] = replacement
    return out


def mapping(original: list[int], changes: list[tuple[int, int, list[int]]]) -> Mapping:
    """Tag every token of the original with its position, splice, and see where the tags went."""
    tagged = [(token, position) for position, token in enumerate(original)]
    out = spliced(tagged, [(a, b, [(token, None) for token in new]) for a, b, new in changes])
    first = min(start for start, _, _ in changes)
    kept = [(now, before) for now, (_, before) in enumerate(out) if before is not None]
    survivors = {before for _, before in kept}
    moved = [(now, before) for now, before in kept if before >= first]
    return Mapping(
        edited=[token for token, _ in out],
        prefix_length=first,
        suffix=[original[before] for _, before in moved],
        suffix_positions=[now for now, _ in moved],
        suffix_original_positions=[before for _, before in moved],
        deleted_positions=[i for i in range(len(original)) if i not in survivors],
        inserted_positions=[now for now, (_, before) in enumerate(out) if before is None],
    )


class Row:
    """One cached row.

    Attributes:
        token: identity of its token.
        content: what it was computed from: its token and the content of every row before; None while missing.
        state: its mark.
        missed: edits of earlier text since it was computed.
    """

    def __init__(self, token: int, content: int | None, state: str) -> None:
        self.token, self.content, self.state, self.missed = token, content, state, 0


class LedgerSimulation:
    """A cache as a list of rows whose contents are numbers: equal numbers, equal computation."""

    def __init__(self, tokens: list[int]) -> None:
        self._known: dict[tuple, int] = {}
        self.rows = [Row(token, None, MISSING) for token in tokens]
        for row, content in zip(self.rows, self.clean(), strict=True):
            row.content, row.state = content, VALID

    def _number(self, token: int, before: list) -> int:
        return self._known.setdefault((token, tuple(before)), len(self._known))

    def clean(self) -> list[int]:
        """Contents that a prefill of the present tokens computes."""
        out: list[int] = []
        for row in self.rows:
            out.append(self._number(row.token, out))
        return out

    def edit(self, changes: list[tuple[int, int, list[int]]]) -> None:
        first = min(start for start, _, _ in changes)
        self.rows = spliced(self.rows, [(a, b, [Row(t, None, MISSING) for t in new]) for a, b, new in changes])
        for row in self.rows[first:]:
            if row.state != MISSING:
                row.state, row.missed = STALE, row.missed + 1

    def refresh(self, positions: list[int]) -> None:
        """Compute rows one after the other, each from the rows as they then are."""
        for position in positions:
            before = self.rows[:position]
            row = self.rows[position]
            row.content = self._number(row.token, [r.content for r in before])
            row.missed = 0
            row.state = VALID if all(r.state == VALID for r in before) else REFRESHED

    def append(self, tokens: list[int]) -> None:
        for token in tokens:
            self.rows.append(Row(token, None, MISSING))
            self.refresh([len(self.rows) - 1])

    def crop(self, length: int) -> None:
        self.rows = self.rows[:length]

    def missing(self) -> list[int]:
        return [i for i, row in enumerate(self.rows) if row.state == MISSING]
