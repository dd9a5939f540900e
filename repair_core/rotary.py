"""How each layer's cached rows turn when they move, decided by a probe instead of by model name."""

from itertools import product
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import nn
from transformers.cache_utils import DynamicCache

from cachemend.repair_core.architecture import check_capability, check_shift, text_config
from cachemend.repair_core.caches import Rows, read_rows
from cachemend.repair_core.errors import Refused
from cachemend.repair_core.forward import base_model, input_device
from cachemend.repair_core.prefilling import extend
from cachemend.repair_core.rotation import Rotation

PROBE_TOKENS = 12
PROBE_OFFSET = 17
# Largest |difference| / |row| that still counts as the same row: rounding grows with depth.
TOLERANCE = {torch.float64: 1e-5, torch.float32: 1e-3, torch.bfloat16: 0.12, torch.float16: 0.05}


class LayerRotations(NamedTuple):
    """How the two cached tensors of one layer turn. Latent attention keeps its rotated part in `values`."""

    keys: Rotation
    values: Rotation


_plans: "WeakKeyDictionary[nn.Module, tuple[LayerRotations, ...]]" = WeakKeyDictionary()


def cache_rotations(model: nn.Module) -> tuple[LayerRotations, ...]:
    """Return the rotations of every layer, probing the model on first use.

    The same tokens are prefilled at position 0 and at an offset. Attention with rotary (or no) positions is
    relative, so each cached tensor must differ by one of the rotations the model's own frequencies allow, or not
    at all.

    Raises:
        Refused: no rotation explains a layer's rows (absolute or unknown position encoding), or the rotary
            setting depends on the context length.
    """
    if model not in _plans:
        check_capability(model)
        check_shift(model)
        _plans[model] = _probe(model)
    return _plans[model]


def relative_error(guess: torch.Tensor, truth: torch.Tensor) -> float:
    """Median over rows [..., n, width] of max|difference| / max|truth|.

    Not the maximum: in low precision a token near a tie between two experts takes the other one, and its row is
    another one.
    """
    difference = (guess.double() - truth.double()).abs().amax(-1)
    return float((difference / truth.double().abs().amax(-1).clamp_min(torch.finfo(truth.dtype).tiny)).median())


def _probe(model: nn.Module) -> tuple[LayerRotations, ...]:
    at_zero, at_offset = (_rows(model, start) for start in (0, PROBE_OFFSET))
    candidates = [Rotation(None)]
    shapes = product(_frequencies(model), (1, -1), ("half", "interleaved"), (False, True))
    for (frequencies, scale), sign, layout, tail in shapes:
        candidates.append(Rotation(sign * frequencies, layout, tail, scale))  # type: ignore[arg-type]
    plan = []
    for layer, (before, after) in enumerate(zip(at_zero, at_offset, strict=True)):
        found = []
        for what, old, new in zip(Rows._fields, before, after, strict=True):
            fits = [c for c in candidates if c.inv_freq is None or 2 * c.inv_freq.numel() <= old.shape[-1]]
            errors = [relative_error(c.apply(old, PROBE_OFFSET), new) for c in fits]
            best = min(range(len(fits)), key=errors.__getitem__)
            if not errors[best] <= TOLERANCE.get(old.dtype, 0.12):
                raise Refused(
                    f"model type {text_config(model).model_type!r}: the {what} of layer {layer} at an offset are no "
                    f"rotation of those at position 0 (relative error {errors[best]:.3g}); it encodes positions in "
                    "a way Shift cannot move"
                )
            found.append(fits[best])
        plan.append(LayerRotations(*found))
    return tuple(plan)


def _frequencies(model: nn.Module) -> list[tuple[torch.Tensor, float]]:
    """The distinct inverse frequencies of the model's rotary embeddings, each with its attention scaling."""
    found: list[tuple[torch.Tensor, float]] = []
    for owner in base_model(model).modules():
        for name, buffer in owner.named_buffers(recurse=False):
            if not name.endswith("inv_freq") or "original" in name or buffer.ndim != 1:
                continue
            frequencies = buffer.detach().double().cpu()
            scale = float(getattr(owner, name.removesuffix("inv_freq") + "attention_scaling", 1.0) or 1.0)
            if not any(f.shape == frequencies.shape and torch.equal(f, frequencies) for f, _ in found):
                found.append((frequencies, scale))
    return found


def _rows(model: nn.Module, start: int) -> list[Rows]:
    ids = (torch.arange(PROBE_TOKENS) * 7919 + 101) % text_config(model).vocab_size
    cache = DynamicCache()
    extend(model, cache, ids[None].to(input_device(model)), start)
    return read_rows(cache)
