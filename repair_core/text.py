"""The text of a token history and the characters each token covers."""

from collections.abc import Sequence
from typing import NamedTuple

from transformers import PreTrainedTokenizerBase

from cachemend.repair_core.errors import InputError


class Span(NamedTuple):
    """Half-open character range of a token; may be empty."""

    start: int
    stop: int


class TokenText(NamedTuple):
    """Text and one span per token, in order."""

    text: str
    spans: tuple[Span, ...]


def special_ids(tokenizer: PreTrainedTokenizerBase) -> set[int]:
    """Ids of the tokens that mark structure instead of text: begin, end, turns, roles."""
    added = {index for index, token in tokenizer.added_tokens_decoder.items() if token.special}
    return {*tokenizer.all_special_ids, *added}


def token_text(tokenizer: PreTrainedTokenizerBase, token_ids: Sequence[int]) -> TokenText:
    """Return the text of `token_ids` and their character spans.

    The decoded text is tokenized once with offsets. From the first token on that does not retokenize to the same id
    (the history was generated, or spliced, or its end would merge), spans come from incremental decoding instead.
    """
    ids = list(token_ids)
    text = _decode(tokenizer, ids)
    if tokenizer.is_fast:
        encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        spans = [Span(start, stop) for start, stop in encoded["offset_mapping"]]
        if encoded["input_ids"] == ids:
            return TokenText(text, tuple(spans))
        same = _common_prefix(encoded["input_ids"], ids)
        while same and "\ufffd" in _decode(tokenizer, ids[same - 1 : same]):
            same -= 1
        if same:
            return _incremental(tokenizer, ids, text[: spans[same - 1].stop], spans[:same])
    return _incremental(tokenizer, ids, "", [])


def _common_prefix(a: list[int], b: list[int]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _decode(tokenizer: PreTrainedTokenizerBase, ids: list[int]) -> str:
    return tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)


def _incremental(tokenizer: PreTrainedTokenizerBase, ids: list[int], text: str, known: list[Span]) -> TokenText:
    """Decode a short window around each token after those `known`; one that ends inside a character gets no width."""
    pieces, spans, length = [text], list(known), len(text)
    window = max(0, len(known) - 1)
    emitted = _decode(tokenizer, ids[window : len(known)])
    for index in range(len(known), len(ids)):
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


def require_text(name: str, value: object, what: str) -> None:
    """Raise InputError unless `value` is a text; `name` is what it is called, `what` is of which a text is wanted."""
    if not isinstance(value, str):
        raise InputError(f"{name} is {value!r}, a {type(value).__name__}; give the text of {what}")
