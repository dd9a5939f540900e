"""The text of a token history and the characters each token covers."""

from collections.abc import Sequence
from typing import NamedTuple

from transformers import PreTrainedTokenizerBase


class Span(NamedTuple):
    """Half-open character range of a token; may be empty."""

    start: int
    stop: int


class TokenText(NamedTuple):
    """Text and one span per token, in order."""

    text: str
    spans: tuple[Span, ...]


def token_text(tokenizer: PreTrainedTokenizerBase, token_ids: Sequence[int]) -> TokenText:
    """Return the text of `token_ids` and their character spans.

    The decoded text is tokenized once with offsets. A history that does not retokenize to the same ids (it was
    generated, or spliced) gets its spans by incremental decoding instead.
    """
    ids = list(token_ids)
    text = _decode(tokenizer, ids)
    if tokenizer.is_fast:
        encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        if encoded["input_ids"] == ids:
            return TokenText(text, tuple(Span(start, stop) for start, stop in encoded["offset_mapping"]))
    return _incremental(tokenizer, ids)


def _decode(tokenizer: PreTrainedTokenizerBase, ids: list[int]) -> str:
    return tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)


def _incremental(tokenizer: PreTrainedTokenizerBase, ids: list[int]) -> TokenText:
    """Decode a short window around each token; a token that ends inside a character gets an empty span."""
    pieces: list[str] = []
    spans: list[Span] = []
    window, emitted, length = 0, "", 0
    for index in range(len(ids)):
        decoded = _decode(tokenizer, ids[window : index + 1])
        last = index == len(ids) - 1
        if decoded.endswith("\ufffd") and not last and index - window < 16:
            spans.append(Span(length, length))
            continue
        piece = decoded[len(emitted) :]
        pieces.append(piece)
        spans.append(Span(length, length + len(piece)))
        length += len(piece)
        # The next window starts at this token, so that a leading-space rule sees its left neighbour.
        window, emitted = index, _decode(tokenizer, ids[index : index + 1])
    return TokenText("".join(pieces), tuple(spans))
