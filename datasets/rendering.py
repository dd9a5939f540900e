"""Turning a user message into the text a model reads, and that text into tokens with character offsets."""

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from cachemend.repair_core.errors import InputError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# Some chat templates print today's date; a cohort must not change overnight.
_DATE = datetime(2024, 7, 26)
_DATE_CALL = re.compile(r"""strftime_now\(\s*(['"])(.*?)\1\s*\)""")


class Encoded(NamedTuple):
    """Token ids and, for each token, its ``(start, stop)`` character span in the text."""

    ids: tuple[int, ...]
    offsets: tuple[tuple[int, int], ...]


def has_chat_template(tokenizer: "PreTrainedTokenizerBase") -> bool:
    """Tell whether the tokenizer brings a chat template."""
    return bool(getattr(tokenizer, "chat_template", None))


def _fixed_date_template(tokenizer: "PreTrainedTokenizerBase") -> str:
    """Return the chat template with every call for today's date replaced by the date of `_DATE`."""
    template: str = tokenizer.get_chat_template()
    return _DATE_CALL.sub(lambda call: repr(_DATE.strftime(call[2])), template)


def render_chat(tokenizer: "PreTrainedTokenizerBase", message: str) -> str:
    """Return one user message in the model's chat template, up to where the answer begins.

    Reasoning mode is off where the template has the switch; a template that prints a date prints a fixed one.
    """
    template = _fixed_date_template(tokenizer)
    options: dict[str, Any] = {"enable_thinking": False, "date_string": _DATE.strftime("%d %b %Y")}
    text: str = tokenizer.apply_chat_template(
        [{"role": "user", "content": message}],
        chat_template=template,
        tokenize=False,
        add_generation_prompt=True,
        **{name: value for name, value in options.items() if name in template},
    )
    return text


def leading_special_ids(tokenizer: "PreTrainedTokenizerBase") -> tuple[int, ...]:
    """Return the ids the tokenizer puts before a plain text, such as a beginning-of-sequence token."""
    bare = tokenizer("a", add_special_tokens=False)["input_ids"]
    full = tokenizer("a", add_special_tokens=True)["input_ids"]
    for start in range(len(full) - len(bare) + 1):
        if full[start : start + len(bare)] == bare:
            return tuple(full[:start])
    return ()


def encode(tokenizer: "PreTrainedTokenizerBase", text: str) -> Encoded:
    """Tokenize `text` once, with offsets and without added special tokens.

    Raises:
        InputError: the tokenizer gives no offsets (it is not a "fast" one).
    """
    if not tokenizer.is_fast:
        raise InputError(
            f"tokenizer {tokenizer.name_or_path!r} gives no character offsets; cohorts need a fast tokenizer"
        )
    out = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    return Encoded(tuple(out["input_ids"]), tuple((start, stop) for start, stop in out["offset_mapping"]))
