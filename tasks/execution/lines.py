"""What the execution benchmark compares, and how it names it."""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from cachemend.repair_core.executors import EXPERIMENTAL, REPAIRING
from cachemend.repair_core.executors.backends import ATTENTIONS, DEFAULT, availability, require_attention

OWN_ATTENTION = "model"
"""Attention of the executors that run the model as it is."""

OWN_EXECUTOR = "none"
"""Of attention that runs outside a refresh."""

HF_SDPA, GQA_SDPA = "hf-sdpa", "sdpa-gqa"
"""Attention outside an executor: transformers' wrapper around SDPA, and SDPA with grouped queries itself."""

COMPARED = (*REPAIRING, *EXPERIMENTAL)
"""Executors that the refresh study takes. The experimental ones run on a CUDA device only, and when named."""

GRAPH_ATTENTIONS = (DEFAULT, "triton-split")
"""Backends of a captured refresh. A model keeps few graphs: with more lines each call would capture its own again."""


class Line(NamedTuple):
    """One way to refresh: the executor, and the attention backend it runs on."""

    executor: str
    attention: str

    def backend(self, device: torch.device, dtype: torch.dtype) -> str:
        """What `refresh` takes as its attention.

        Raises:
            InputError: a backend that cannot run on this device or in this precision.
        """
        if self.attention == OWN_ATTENTION:
            return DEFAULT
        # A refresh would take another one instead.
        require_attention(self.attention, device, dtype)
        return self.attention


def how(attention: str, device: torch.device, dtype: torch.dtype) -> str | None:
    """How a backend runs here, such as interpreted; None for what is no backend."""
    return availability(attention, device, dtype).detail if attention in ATTENTIONS else None


def refresh_lines(executors: Sequence[str], attentions: Sequence[str]) -> tuple[Line, ...]:
    """Each executor once, the packed one with every backend; a CUDA graph with those of `GRAPH_ATTENTIONS` among them.

    A graph of no such backend is there with the first one, and says why it cannot run.
    """
    graphed = [name for name in attentions if name in GRAPH_ATTENTIONS] or attentions[:1]
    lines = []
    for executor in executors:
        backends = attentions if executor == "packed" else graphed if executor in EXPERIMENTAL else (OWN_ATTENTION,)
        lines += [Line(executor, attention) for attention in backends]
    return tuple(lines)


def attention_lines(attentions: Sequence[str]) -> tuple[str, ...]:
    """The two controls of the paper, then every backend of the packed executor."""
    return (HF_SDPA, GQA_SDPA, *attentions)
