"""Rotary embeddings whose frequencies depend on the length of the context, held at one length."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from cachemend.repair_core.architecture import LENGTH_DEPENDENT_ROPE, rope_types
from cachemend.repair_core.errors import Refused
from cachemend.repair_core.forward import base_model, model_lock


@contextmanager
def pinned_frequencies(model: nn.Module, length: int) -> Iterator[None]:
    """Give every forward inside the rotary frequencies of a context of `length` tokens.

    A model with dynamic NTK or longrope chooses its frequencies by the largest position of one forward, and keeps
    some of them for the next; rows recomputed in the middle of a long context would be rotated like those of a
    short one. The model's lock is held meanwhile, and its frequencies are afterwards what they were before.
    """
    rotaries = _length_dependent(model)
    if not rotaries:
        yield
        return
    with model_lock(model), _restored(rotaries):
        for module in rotaries:
            _choose(module, length)
            module.rope_type = _frozen(module.rope_type)
        yield


def check_same_frequencies(model: nn.Module, before: int, after: int) -> None:
    """Refuse to keep rows of a context of one length in a context of another where their rotations differ.

    Raises:
        Refused: names the rotary setting.
    """
    rotaries = _length_dependent(model)
    with model_lock(model), _restored(rotaries):
        for module in rotaries:
            old, new = _choose(module, before), _choose(module, after)
            if any(not torch.equal(a, b) for a, b in zip(old, new, strict=True)):
                bad = next(kind for kind in rope_types(model) if kind in LENGTH_DEPENDENT_ROPE)
                raise Refused(
                    f"rope_type {bad!r} rotates a context of {before} tokens otherwise than one of {after}, so no "
                    "cached row can be kept; re-prefill instead"
                )


def _length_dependent(model: nn.Module) -> list[Any]:
    if not any(kind in LENGTH_DEPENDENT_ROPE for kind in rope_types(model)):
        return []
    return [module for module in base_model(model).modules() if hasattr(module, "rope_type")]


@contextmanager
def _restored(rotaries: list[Any]) -> Iterator[None]:
    """Leave rotary embeddings as they were: their settings, and their buffers at the same addresses."""
    before = [
        (
            {name: value for name, value in vars(module).items() if not name.startswith("_")},
            [(name, buffer, buffer.clone()) for name, buffer in module.named_buffers(recurse=False)],
        )
        for module in rotaries
    ]
    try:
        yield
    finally:
        for module, (settings, buffers) in zip(rotaries, before, strict=True):
            for name, value in settings.items():
                setattr(module, name, value)
            for name, buffer, numbers in buffers:
                setattr(module, name, buffer.copy_(numbers))


def _choose(module: Any, length: int) -> list[torch.Tensor]:
    """Let a rotary embedding choose its frequencies for `length` tokens, and return copies of what it chose."""
    kinds = list(module.rope_type) if isinstance(module.rope_type, dict) else [None]
    chosen = []
    for kind in kinds:
        name = "inv_freq" if kind is None else f"{kind}_inv_freq"
        device = getattr(module, name).device
        arguments = () if kind is None else (kind,)
        # Position 0 first: it makes the embedding forget longer contexts seen before.
        for position in (0, length - 1):
            module(torch.zeros(1, 1, 1, device=device), torch.full((1, 1), position, device=device), *arguments)
        chosen.append(getattr(module, name).clone())
    return chosen


def _frozen(kind: str | dict[str, str]) -> str | dict[str, str]:
    return dict.fromkeys(kind, "default") if isinstance(kind, dict) else "default"
