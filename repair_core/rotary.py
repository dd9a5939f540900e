"""Per-layer rotation of cached keys, decided by a probe instead of by model name."""

from dataclasses import dataclass
from itertools import product
from typing import Literal
from weakref import WeakKeyDictionary

import torch
from torch import nn
from transformers.cache_utils import DynamicCache

from cachemend.repair_core.architecture import check_capability, check_shift, text_config
from cachemend.repair_core.caches import read_rows
from cachemend.repair_core.errors import Refused
from cachemend.repair_core.forward import base_model, input_device, run

PROBE_TOKENS = 12
PROBE_OFFSET = 17
# Largest |difference| / |key| that still counts as the same rotation: rounding grows with depth.
TOLERANCE = {torch.float64: 1e-5, torch.float32: 1e-3, torch.bfloat16: 0.12, torch.float16: 0.05}


@dataclass(frozen=True, eq=False)
class Rotation:
    """How one layer's cached keys turn when their positions move.

    Attributes:
        inv_freq: FP64 [rotary dims / 2], radians per position; None for a layer without positions.
        layout: "half" pairs dim i with i + r/2, "interleaved" pairs 2i with 2i + 1.
        tail: the rotary dims are the last ones of the head instead of the first.
    """

    inv_freq: torch.Tensor | None
    layout: Literal["half", "interleaved"] = "half"
    tail: bool = False

    def apply(self, keys: torch.Tensor, offset: int) -> torch.Tensor:
        """Return R(offset) keys, computed in FP32 and stored in the keys' dtype (paper Eq. 2).

        Args:
            keys: [..., n, head dim], rotated to some positions.
            offset: how far every position moves; negative after a deletion.

        A scaling factor of the rotary embedding is already part of a stored key, so this is a pure rotation.
        """
        if self.inv_freq is None or offset == 0:
            return keys.clone()
        width = 2 * self.inv_freq.numel()
        work = torch.promote_types(keys.dtype, torch.float32)
        angle = self.inv_freq.to(keys.device, torch.float64) * offset
        cos, sin = angle.cos().to(work), angle.sin().to(work)
        start = keys.shape[-1] - width if self.tail else 0
        part = keys[..., start : start + width].to(work)
        if self.layout == "half":
            first, second = part.chunk(2, dim=-1)
            turned = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
        else:
            first, second = part[..., 0::2], part[..., 1::2]
            turned = torch.stack((first * cos - second * sin, second * cos + first * sin), dim=-1).flatten(-2)
        out = keys.clone()
        out[..., start : start + width] = turned.to(keys.dtype)
        return out


_plans: "WeakKeyDictionary[nn.Module, tuple[Rotation, ...]]" = WeakKeyDictionary()


def rotation_plan(model: nn.Module) -> tuple[Rotation, ...]:
    """Return one `Rotation` per layer, probing the model on first use.

    The same tokens are prefilled at position 0 and at an offset. Attention with rotary (or no) positions is
    relative, so each layer's keys must differ by one of the rotations the model's own frequencies allow.

    Raises:
        Refused: no rotation explains a layer's keys (absolute or unknown position encoding), or the rotary
            setting depends on the context length.
    """
    if model not in _plans:
        check_capability(model)
        check_shift(model)
        _plans[model] = _probe(model)
    return _plans[model]


def _frequencies(model: nn.Module) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    for name, buffer in base_model(model).named_buffers():
        leaf = name.rsplit(".", 1)[-1]
        if leaf.endswith("inv_freq") and "original" not in leaf and buffer.ndim == 1:
            frequencies = buffer.detach().double().cpu()
            if not any(f.shape == frequencies.shape and torch.equal(f, frequencies) for f in found):
                found.append(frequencies)
    return found


def _probe(model: nn.Module) -> tuple[Rotation, ...]:
    vocabulary = text_config(model).vocab_size
    ids = (torch.arange(PROBE_TOKENS) * 7919 + 101) % vocabulary
    ids = ids[None].to(input_device(model))
    at_zero, at_offset = (_keys(model, ids, start) for start in (0, PROBE_OFFSET))
    candidates = [Rotation(None)]
    for frequencies, layout, tail in product(_frequencies(model), ("half", "interleaved"), (False, True)):
        candidates.append(Rotation(frequencies, layout, tail))  # type: ignore[arg-type]
    plan = []
    for layer, (before, after) in enumerate(zip(at_zero, at_offset, strict=True)):
        fits = [c for c in candidates if c.inv_freq is None or 2 * c.inv_freq.numel() <= before.shape[-1]]
        errors = [_error(c.apply(before, PROBE_OFFSET), after) for c in fits]
        best = min(range(len(fits)), key=errors.__getitem__)
        if errors[best] > TOLERANCE.get(before.dtype, 0.12):
            raise Refused(
                f"model type {text_config(model).model_type!r}: the keys of layer {layer} at an offset are no "
                f"rotation of those at position 0 (relative error {errors[best]:.3g}); it encodes positions in a "
                "way Shift cannot move"
            )
        plan.append(fits[best])
    return tuple(plan)


def _keys(model: nn.Module, ids: torch.Tensor, start: int) -> list[torch.Tensor]:
    cache = DynamicCache()
    positions = torch.arange(start, start + ids.shape[1], device=ids.device)[None]
    run(base_model(model), ids, cache, positions)
    return [rows.keys for rows in read_rows(cache)]


def _error(guess: torch.Tensor, truth: torch.Tensor) -> float:
    return float((guess.double() - truth.double()).abs().max() / truth.double().abs().max())
