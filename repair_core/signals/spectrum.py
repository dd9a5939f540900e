"""Low-frequency strength of cached keys and values (paper Table 1: CacheTune)."""

import torch
from torch import nn
from transformers.cache_utils import Cache

from cachemend.repair_core.caches import read_rows, require_computed
from cachemend.repair_core.edits import Edit
from cachemend.repair_core.relevance import Scores
from cachemend.repair_core.rotary import cache_rotations


def low_pass_strength(model: nn.Module, shifted: Cache, edit: Edit) -> Scores:
    """Mean norm of the low-passed keys and values of every suffix token, averaged over layers. FP64 [S], sum 1.

    Rotation is taken back first. Along the suffix, the lowest floor((floor(S/2) + 1) / 2) of the FFT's bins are
    kept, in FP32; a layer's scores are divided by their sum. One token, or a layer of zeros, scores uniformly.

    Raises:
        Refused: rows that an earlier edit inserted were never computed.
    """
    require_computed(shifted, "this signal", but=edit.inserted_positions)
    where = torch.tensor(edit.suffix_positions)
    count = edit.suffix_length
    total = torch.zeros(count, dtype=torch.float64)
    rows = read_rows(shifted)
    for layer, turn in zip(rows, cache_rotations(model), strict=True):
        parts = []
        for stored, rotation in zip(layer, turn, strict=True):
            on = where.to(stored.device)
            parts.append(rotation.remove(stored[0].index_select(-2, on), on))
        norms = torch.stack([_low_pass(part).double().square().sum(dim=(0, 2)).sqrt() for part in parts]).mean(dim=0)
        mass = norms.sum()
        total += (norms / mass if count > 1 and mass > 0 else torch.full_like(norms, 1 / count)).cpu()
    return (total / len(rows)).numpy()


def _low_pass(signal: torch.Tensor) -> torch.Tensor:
    """Signal [heads, S, dim] without the upper half of its frequencies along S."""
    count = signal.shape[-2]
    bins = torch.fft.rfft(signal, dim=-2)
    bins[:, (count // 2 + 1) // 2 :] = 0
    return torch.fft.irfft(bins, n=count, dim=-2)
