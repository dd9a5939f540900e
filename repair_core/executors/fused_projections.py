"""Projections of the same input as one product with joined weights. Experimental, used by the CUDA graph only."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import torch
from torch import nn
from torch.nn.functional import linear

TOGETHER = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))


class Joined(NamedTuple):
    """Weight [sum of outputs, inputs] and bias [sum of outputs] of projections that run as one."""

    weight: torch.Tensor
    bias: torch.Tensor | None


@contextmanager
def fused_projections(model: nn.Module) -> Iterator[tuple[Joined, ...]]:
    """Let the projections of each input run as one product; yields the joined weights of each.

    Their weights become views of the joined ones, with the same values: nothing is held twice. They stay so behind the
    context, and entering it again moves nothing. Projections that are not plain `nn.Linear` of one format, or that have
    hooks, are left as they are.
    """
    groups = [_Group(parts) for module in model.modules() for names in TOGETHER if (parts := _parts(module, names))]
    try:
        for group in groups:
            for index, part in enumerate(group.parts):
                part.forward = partial(group.output, index)  # type: ignore[method-assign]
        yield tuple(group.joined for group in groups)
    finally:
        for group in groups:
            for part in group.parts:
                vars(part).pop("forward", None)


def joining_moves(model: nn.Module) -> bool:
    """Whether `fused_projections` would move weights: they are not joined yet, or were loaded again."""
    return any(
        not _adjoin([part.weight for part in parts])
        for module in model.modules()
        for names in TOGETHER
        if (parts := _parts(module, names))
    )


def _parts(module: nn.Module, names: Sequence[str]) -> list[nn.Linear]:
    """The projections of `module` with these names; empty where they cannot run as one."""
    parts = [part for name in names if type(part := getattr(module, name, None)) is nn.Linear]
    if len(parts) < len(names) or any("forward" in vars(part) or part._forward_hooks for part in parts):
        return []
    formats = {(p.weight.shape[1], p.weight.dtype, p.weight.device, p.bias is None) for p in parts}
    return parts if len(formats) == 1 else []


class _Group:
    """Projections of one module that take the same input."""

    def __init__(self, parts: list[nn.Linear]) -> None:
        self.parts = parts
        self.sizes = [part.weight.shape[0] for part in parts]
        bias = None if parts[0].bias is None else _joined([part.bias for part in parts])
        self.joined = Joined(_joined([part.weight for part in parts]), bias)
        self._input: torch.Tensor | None = None
        self._outputs: tuple[torch.Tensor, ...] = ()

    def output(self, index: int, given: torch.Tensor) -> torch.Tensor:
        """What projection `index` makes of `given`; the product runs for the first one asked."""
        if self._input is not given:
            self._input, self._outputs = given, linear(given, *self.joined).split(self.sizes, dim=-1)
        return self._outputs[index]


def _joined(parameters: Sequence[torch.Tensor]) -> torch.Tensor:
    """One tensor of all rows, of which the parameters become views unless they are already."""
    first, lengths = parameters[0].detach(), [len(p) for p in parameters]
    if _adjoin(parameters):
        return first.as_strided((sum(lengths), *first.shape[1:]), first.stride())
    joined = torch.cat([parameter.detach() for parameter in parameters])
    for parameter, view in zip(parameters, joined.split(lengths), strict=True):
        parameter.data = view
    return joined


def _adjoin(parameters: Sequence[torch.Tensor]) -> bool:
    """Whether each lies in one storage right behind the one before."""
    storage, place = parameters[0].untyped_storage().data_ptr(), parameters[0].storage_offset()
    for parameter in parameters:
        here = parameter.untyped_storage().data_ptr() == storage and parameter.storage_offset() == place
        if not here or not parameter.is_contiguous():
            return False
        place += parameter.numel()
    return True
