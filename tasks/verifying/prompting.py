"""The tokens a chat model reads before, around and after a text that nobody can be trusted to have written."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from cachemend.datasets.rendering import _DATE, _fixed_date_template, has_chat_template, leading_special_ids
from cachemend.repair_core.errors import InputError

# Stands for the message while the template is rendered; no template changes or repeats such a word.
_MESSAGE = "MESSAGE7F3A91C4"


class Frame(NamedTuple):
    """Token ids before and after a message."""

    before: tuple[int, ...]
    after: tuple[int, ...]

    def around(self, tokenizer: PreTrainedTokenizerBase, message: str) -> list[int]:
        """Return the ids of the whole prompt."""
        return [*self.before, *text_ids(tokenizer, message), *self.after]


def text_ids(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """Tokenize text of unknown origin: control tokens spelt out in it stay text.

    Else a cached response could end the user's turn and answer VALID in the model's place.
    """
    ids: list[int] = tokenizer(text, add_special_tokens=False, split_special_tokens=True, verbose=False)["input_ids"]
    return ids


def frame(tokenizer: PreTrainedTokenizerBase, instruction: str | None) -> Frame:
    """Return what stands around a user message, up to where the model's answer begins.

    Args:
        tokenizer: with a chat template, it is used; else the parts are put on lines of their own.
        instruction: the system message, put before the user message where the template has no place for one.

    Raises:
        InputError: a chat template that does not hand the message on as it is.
    """
    if not has_chat_template(tokenizer):
        before = _control_ids(tokenizer, f"{instruction}\n\n" if instruction else "")
        return Frame((*leading_special_ids(tokenizer), *before), _control_ids(tokenizer, "\n"))
    text = _rendered(tokenizer, instruction)
    if text.count(_MESSAGE) != 1:
        raise InputError(f"tokenizer {tokenizer.name_or_path!r}: its chat template changes or repeats the user message")
    before_text, _, after_text = text.partition(_MESSAGE)
    return Frame(_control_ids(tokenizer, before_text), _control_ids(tokenizer, after_text))


def _rendered(tokenizer: PreTrainedTokenizerBase, instruction: str | None) -> str:
    user = {"role": "user", "content": _MESSAGE}
    if instruction is None:
        return _render(tokenizer, [user])
    try:
        text = _render(tokenizer, [{"role": "system", "content": instruction}, user])
    except TemplateError:  # some templates refuse a system message, others drop it
        text = ""
    if instruction in text:
        return text
    return _render(tokenizer, [{"role": "user", "content": f"{instruction}\n\n{_MESSAGE}"}])


def _render(tokenizer: PreTrainedTokenizerBase, messages: Sequence[dict[str, str]]) -> str:
    template = _fixed_date_template(tokenizer)
    options: dict[str, Any] = {"enable_thinking": False, "date_string": _DATE.strftime("%d %b %Y")}
    text: str = tokenizer.apply_chat_template(
        messages,
        chat_template=template,
        tokenize=False,
        add_generation_prompt=True,
        **{name: value for name, value in options.items() if name in template},
    )
    return text


def _control_ids(tokenizer: PreTrainedTokenizerBase, text: str) -> tuple[int, ...]:
    return tuple(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]) if text else ()
