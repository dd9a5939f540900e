"""Verdicts of a causal language model in this process."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from transformers.cache_utils import DynamicCache

from cachemend.calibration.candidate import Candidate
from cachemend.calibration.verdicts import MAX_NEW_TOKENS, RESPONSE_VALIDITY, Question, Verdict
from cachemend.repair_core import LoadedModel
from cachemend.repair_core.forward import input_device, run, takes
from cachemend.tasks.ending import answer_text, end_of_turn_ids
from cachemend.tasks.verifying.batching import batched
from cachemend.tasks.verifying.prompting import frame

# Enough to keep two cores busy, and a small share of any accelerator's memory.
_BATCH_TOKENS = 8192

DECODING = f"greedy,max_new_tokens={MAX_NEW_TOKENS}"


@dataclass(frozen=True, kw_only=True)
class LocalVerifier:
    """A source of verdicts: one loaded model, temperature 0, at most eight new tokens (paper appendix D).

    Attributes:
        loaded: the model.
        question: what it is asked.
    """

    loaded: LoadedModel
    question: Question = RESPONSE_VALIDITY

    @property
    def fingerprint(self) -> str:
        return f"{self.loaded.fingerprint}-{self.loaded.dtype}"

    @property
    def decoding(self) -> str:
        return DECODING

    def verdicts(self, candidates: Sequence[Candidate]) -> list[Verdict]:
        return local_verdicts(self.loaded, candidates, question=self.question)


def local_verdicts(
    loaded: LoadedModel, candidates: Sequence[Candidate], *, question: Question = RESPONSE_VALIDITY
) -> list[Verdict]:
    """Ask a model about each candidate.

    A prompt that, with its answer, is longer than the model's limit is `OVERFLOW`; nothing is cut off. One that does
    not fit memory even alone is `FAILED`. The settings of the model's generation configuration, such as a repetition
    penalty, are not used: decoding is the largest logit.

    Raises:
        InputError: a chat template that changes the user message.
    """
    outer = frame(loaded.tokenizer, question.instruction)
    prompts = [outer.around(loaded.tokenizer, question.message(candidate)) for candidate in candidates]
    verdicts = [Verdict.OVERFLOW] * len(prompts)
    fitting = [index for index, ids in enumerate(prompts) if fits(loaded, len(ids) + MAX_NEW_TOKENS)]
    asked = [prompts[index] for index in fitting]
    answers = batched(asked, partial(greedy_texts, loaded), None, length=len, tokens=_BATCH_TOKENS)
    for index, answer in zip(fitting, answers, strict=True):
        verdicts[index] = Verdict.FAILED if answer is None else question.parse(answer)
    return verdicts


def fits(loaded: LoadedModel, tokens: int) -> bool:
    """Whether the model's limit allows so many tokens."""
    return loaded.max_length is None or tokens <= loaded.max_length


def greedy_texts(loaded: LoadedModel, prompts: Sequence[Sequence[int]]) -> list[str | None]:
    """Return the greedy continuations of a batch, each up to the end of its turn, of at most eight tokens."""
    model, stops = loaded.model, end_of_turn_ids(loaded)
    device, width = input_device(model), max(map(len, prompts))
    ids = torch.zeros((len(prompts), width), dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, prompt in enumerate(prompts):  # padded on the left: the last columns are the next tokens of all
        ids[row, width - len(prompt) :] = torch.tensor(prompt)
        mask[row, width - len(prompt) :] = 1
    ids, mask = ids.to(device), mask.to(device)
    positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
    cache = DynamicCache()
    last = {"logits_to_keep": 1} if takes(model, "logits_to_keep") else {}
    written: list[torch.Tensor] = []
    while len(written) < MAX_NEW_TOKENS and not _all_ended(written, stops):
        output = run(model, ids, cache, positions, attention_mask=mask, **last)
        ids = output.logits[:, -1:].argmax(dim=-1)
        written.append(ids[:, 0].cpu())
        positions = positions[:, -1:] + 1
        mask = torch.cat([mask, torch.ones_like(mask[:, :1])], dim=1)
    return [answer_text(loaded, row) for row in torch.stack(written, dim=1).tolist()]


def _all_ended(written: Sequence[torch.Tensor], stops: frozenset[int]) -> bool:
    return bool(written) and all(stops.intersection(row) for row in torch.stack(list(written), dim=1).tolist())
