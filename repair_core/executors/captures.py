"""What was captured of each model: kept no longer than the model, used only while its weights are where they were."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from itertools import chain
from typing import Generic, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import nn

Captured = TypeVar("Captured")


class ModelState(NamedTuple):
    """What a captured forward depends on beside its input.

    Attributes:
        addresses: of all parameters and buffers.
        adapters: per adapter layer, what switches it.
    """

    addresses: tuple[int, ...]
    adapters: tuple[Hashable, ...]

    @classmethod
    def of(cls, model: nn.Module) -> "ModelState":
        """The state of `model` now."""
        # Every replay asks, inside its time: one walk, and nothing made of a tensor.
        addresses: list[int] = []
        switches: list[Hashable] = []
        for module in model.modules():
            for held in (module._parameters, module._buffers):
                addresses.extend(tensor.data_ptr() for tensor in held.values() if tensor is not None)
            if "merged_adapters" in vars(module):
                switches.append(_switches(module))
        return cls(tuple(addresses), tuple(switches))


def tensors_of(model: nn.Module) -> list[torch.Tensor]:
    """All parameters and buffers as tensors that keep their memory, not the model."""
    return [tensor.detach() for tensor in chain(model.parameters(), model.buffers())]


class Captures(Generic[Captured]):
    """The last few captures of every model; they go when the model does.

    Args:
        most: captures of one model that are kept.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._of: WeakKeyDictionary[nn.Module, OrderedDict[tuple[ModelState, Hashable], Captured]] = WeakKeyDictionary()

    def get(
        self,
        model: nn.Module,
        key: Hashable,
        capture: Callable[[], Captured],
        moves: Callable[[nn.Module], bool] | None = None,
    ) -> Captured:
        """Return what was captured under `key` of the model as it is now, or capture it.

        Captures made while the weights were elsewhere, or before they move, are dropped first: they would keep the old
        weights beside the new ones. The caller holds the model's lock.

        Args:
            model: what was captured; it is held weakly.
            key: of everything else the capture depends on.
            capture: what it returns must not refer to the model.
            moves: tells whether `capture` would move the model's weights now; None where it never does.
        """
        kept = self._of.setdefault(model, OrderedDict())
        place = (ModelState.of(model), key)
        if place not in kept:
            moving = moves is not None and moves(model)
            for old in [other for other in kept if moving or other[0].addresses != place[0].addresses]:
                del kept[old]
            made = capture()
            place = (ModelState.of(model), key)
            kept[place] = made
            if len(kept) > self._most:
                kept.popitem(last=False)
        kept.move_to_end(place)
        return kept[place]


def _switches(layer: nn.Module) -> Hashable:
    """What turns an adapter of the PEFT library on, off or to another strength without another tensor."""
    names = ("disable_adapters", "active_adapters", "merged_adapters", "scaling")
    return tuple(str(getattr(layer, name, None)) for name in names)
