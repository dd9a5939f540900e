"""Semantic units: the coherent regions a budget is spent on (paper section 7.3)."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from transformers import PreTrainedTokenizerBase

from cachemend.repair_core.boundaries import containers
from cachemend.repair_core.edits import Edit
from cachemend.repair_core.text import Span, special_ids, token_text

MAX_TOKENS = 128
MIN_TOKENS = 8


class Unit(NamedTuple):
    """A half-open range of suffix token indices."""

    start: int
    stop: int

    @property
    def length(self) -> int:
        return self.stop - self.start


class Segmentation(NamedTuple):
    """The units of a suffix.

    Attributes:
        units: partition of 0..S, in order.
        texts: the text of each unit.
    """

    units: tuple[Unit, ...]
    texts: tuple[str, ...]


def semantic_units(
    tokenizer: PreTrainedTokenizerBase, edit: Edit, max_tokens: int = MAX_TOKENS, min_tokens: int = MIN_TOKENS
) -> Segmentation:
    """Group the retained suffix into units at message, block, paragraph and sentence boundaries.

    The text is that of the edited context, clipped to the suffix first; a unit never crosses a message or a
    structured block. `max_tokens` and `min_tokens` are as for `build_units`.
    """
    if edit.suffix_length == 0:
        return Segmentation((), ())
    whole = token_text(tokenizer, edit.edited_ids)
    spans = [whole.spans[i] for i in edit.suffix_positions]
    origin = spans[0].start
    text = whole.text[origin:]
    spans = [Span(start - origin, stop - origin) for start, stop in spans]
    starts = message_starts(tokenizer, edit.suffix_ids, spans)
    units = build_units(spans, containers(text, starts), max_tokens, min_tokens)
    return Segmentation(units, tuple(text[spans[u.start].start : spans[u.stop - 1].stop] for u in units))


def message_starts(tokenizer: PreTrainedTokenizerBase, token_ids: Sequence[int], spans: Sequence[Span]) -> list[int]:
    """Characters where a chat message begins: after an end-of-turn token, or at any other special token."""
    specials = special_ids(tokenizer)
    names = {i: str(tokenizer.convert_ids_to_tokens(i)).lower() for i in specials & set(token_ids)}
    ends = {i for i, name in names.items() if "end" in name or "eot" in name or name in ("</s>", "<eos>")}
    starts = []
    after_end = False
    for token, span in zip(token_ids, spans, strict=True):
        if after_end or (token in names and token not in ends):
            starts.append(span.start)
        after_end = token in ends
    return starts


def build_units(
    spans: Sequence[Span],
    pieces: Sequence[Sequence[Span]],
    max_tokens: int = MAX_TOKENS,
    min_tokens: int = MIN_TOKENS,
) -> tuple[Unit, ...]:
    """Partition tokens into units.

    Args:
        spans: character span of each suffix token.
        pieces: containers of character pieces that partition the suffix text, in order.
        max_tokens: longer pieces are split into balanced chunks.
        min_tokens: shorter ones merge with the shorter neighbour of their container (tie: the preceding).

    Returns:
        Units in order; together they hold every token exactly once.
    """
    flat = [piece for container in pieces for piece in container]
    owner = [index for index, container in enumerate(pieces) for _ in container]
    stops = [piece.stop for piece in flat]
    counts = [0] * len(flat)
    previous: int | None = None
    leading = 0
    for start, stop in spans:
        if stop > start:
            # A midpoint on a boundary goes right.
            found = min(bisect_right(stops, (start + stop) / 2), len(flat) - 1)
            previous = found if previous is None else max(previous, found)
        if previous is None:
            leading += 1
        else:
            counts[previous] += 1
    if leading:
        # Zero-width tokens join the preceding unit; those before any other token join the first.
        counts[next((i for i, count in enumerate(counts) if count), 0)] += leading
    units: list[Unit] = []
    position = 0
    by_container: list[list[int]] = [[] for _ in pieces]
    for container, count in zip(owner, counts, strict=True):
        if count:
            by_container[container].append(count)
    for lengths in by_container:
        for length in _merge_short(_split_long(lengths, max_tokens), max_tokens, min_tokens):
            units.append(Unit(position, position + length))
            position += length
    if position != len(spans):
        raise AssertionError(f"units cover {position} of {len(spans)} suffix tokens")
    return tuple(units)


def _split_long(lengths: Sequence[int], max_tokens: int) -> list[int]:
    out: list[int] = []
    for length in lengths:
        chunks = -(-length // max_tokens)
        short, longer = divmod(length, chunks)
        out += [short + 1] * longer + [short] * (chunks - longer)
    return out


def _merge_short(lengths: list[int], max_tokens: int, min_tokens: int) -> list[int]:
    out = list(lengths)
    while len(out) > 1:
        small = next((i for i, length in enumerate(out) if length < min_tokens), None)
        if small is None:
            break
        neighbours = [i for i in (small - 1, small + 1) if 0 <= i < len(out)]
        other = min(neighbours, key=lambda i: (out[i], i))
        low = min(small, other)
        out[low : low + 2] = _split_long([out[low] + out[low + 1]], max_tokens)
    return out
