"""From a document to the whole prompt of a case, as text with the character positions that matter."""

from typing import TYPE_CHECKING, NamedTuple, Self

from cachemend.datasets.niah_spec import NiahPrompt
from cachemend.datasets.niah_text import PARAGRAPH, Document
from cachemend.datasets.rendering import has_chat_template, leading_special_ids, render_chat

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_PROBE = "[the message stands here]"


class Frame(NamedTuple):
    """What surrounds the message: `leading_ids` and text `header` before it, text `closing` after it."""

    leading_ids: tuple[int, ...]
    header: str
    closing: str
    is_chat: bool


def find_frame(tokenizer: "PreTrainedTokenizerBase", prompt: NiahPrompt, name: str) -> Frame:
    """Read off what the chat template, or plain rendering, puts around a message, and add the prefill."""
    prefill = prompt.answer_prefill.format(key=name)
    if prompt.rendering == "chat" and has_chat_template(tokenizer):
        header, _, closing = render_chat(tokenizer, _PROBE).partition(_PROBE)
        return Frame((), header, closing + prefill, True)
    return Frame(leading_special_ids(tokenizer), "", prompt.plain_closing + prefill, False)


class Prompt(NamedTuple):
    """A whole prompt in four parts; ``body[span[0]:span[1]]`` is to be deleted.

    The context that is cached is ``header + body``: it ends where the question begins, so the blank lines
    between the two belong to the context.
    """

    header: str
    body: str
    question: str
    closing: str
    span: tuple[int, int]

    @property
    def message(self) -> str:
        return self.body + self.question

    @property
    def text(self) -> str:
        return self.header + self.message + self.closing

    @property
    def context_stop(self) -> int:
        return len(self.header) + len(self.body)

    @property
    def text_span(self) -> tuple[int, int]:
        return len(self.header) + self.span[0], len(self.header) + self.span[1]

    @property
    def edited(self) -> Self:
        """The prompt after the deletion."""
        start, stop = self.span
        return self._replace(body=self.body[:start] + self.body[stop:], span=(start, start))


def make_prompt(frame: Frame, wording: NiahPrompt, document: Document, deleted: int, name: str) -> Prompt:
    """Put instruction, document and question together; `deleted` is the index of the fact to delete."""
    before = f"{wording.instruction}{PARAGRAPH}" if wording.instruction else ""
    start, stop = document.spans[deleted]
    return Prompt(
        header=frame.header,
        body=f"{before}{document.text}{PARAGRAPH}",
        question=wording.question.format(key=name),
        closing=frame.closing,
        span=(len(before) + start, len(before) + stop),
    )
