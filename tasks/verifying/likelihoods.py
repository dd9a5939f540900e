"""How likely a cached response is as an answer to the new request (the input of Conditional-PPL, appendix E)."""

from collections.abc import Sequence
from functools import partial
from math import nan
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from cachemend.calibration.candidate import Candidate
from cachemend.repair_core import LoadedModel
from cachemend.repair_core.forward import input_device, model_lock
from cachemend.tasks.verifying.batching import batched
from cachemend.tasks.verifying.local import fits
from cachemend.tasks.verifying.prompting import frame, text_ids

# The logits of every token of a batch are in memory at once.
_BATCH_TOKENS = 2048


class _Scored(NamedTuple):
    """A prompt with the answer to score, as token ids."""

    prompt: list[int]
    answer: list[int]

    @property
    def size(self) -> int:
        return len(self.prompt) + len(self.answer)


def response_likelihoods(loaded: LoadedModel, candidates: Sequence[Candidate]) -> NDArray[np.float64]:
    """Return the mean log-likelihood per token of each cached response, in nats; shape ``[n]``.

    The response is scored as the model's answer to the new request alone, without an instruction or a context. NaN
    where there is no response, where request and response are longer than the model's limit, or where they do not
    fit memory even alone.

    Raises:
        InputError: a chat template that changes the user message.
    """
    outer, tokenizer = frame(loaded.tokenizer, None), loaded.tokenizer
    likelihoods = np.full(len(candidates), nan)
    scored = {}
    for index, candidate in enumerate(candidates):
        row = _Scored(outer.around(tokenizer, candidate.q_probe), text_ids(tokenizer, candidate.r_cache))
        if row.answer and fits(loaded, row.size):
            scored[index] = row
    means = batched(
        list(scored.values()), partial(_mean_logprobs, loaded), nan, length=lambda row: row.size, tokens=_BATCH_TOKENS
    )
    likelihoods[list(scored)] = means
    return likelihoods


def _mean_logprobs(loaded: LoadedModel, rows: list[_Scored]) -> list[float]:
    device = input_device(loaded.model)
    ids = torch.zeros((len(rows), max(row.size for row in rows)), dtype=torch.long)
    mask = torch.zeros_like(ids)
    for index, row in enumerate(rows):  # padded on the right, where causal attention does not look
        ids[index, : row.size] = torch.tensor([*row.prompt, *row.answer])
        mask[index, : row.size] = 1
    with model_lock(loaded.model), torch.no_grad():
        logits = loaded.model(input_ids=ids.to(device), attention_mask=mask.to(device), use_cache=False).logits
    means = []
    for index, row in enumerate(rows):
        target = torch.tensor(row.answer, device=logits.device)
        scores = logits[index, len(row.prompt) - 1 : row.size - 1].float().log_softmax(dim=-1)
        means.append(float(scores.gather(1, target[:, None]).double().mean()))
    return means
