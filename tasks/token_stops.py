"""Where each token of a context ends in its text."""

from collections.abc import Sequence

from transformers import PreTrainedTokenizerBase

from cachemend.repair_core.text import token_text


def token_stops(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int], text: str) -> list[int] | None:
    """Return where each token of `ids` ends in `text`, characters.

    A token without text of its own there, such as an opening one that the template does not write, ends where the
    text before it does.

    Returns:
        One stop per token; None for a tokenizer that does not give the text back.
    """
    decoded = token_text(tokenizer, tuple(ids))
    opening = len(decoded.text) - len(text)
    if opening < 0 or decoded.text[opening:] != text:
        return None
    return [max(0, span.stop - opening) for span in decoded.spans]
