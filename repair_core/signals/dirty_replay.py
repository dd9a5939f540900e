"""How much of each suffix token's attention fell on the deleted text (paper Table 1: Cache-Craft)."""

import torch
from torch import nn
from transformers.cache_utils import Cache

from cachemend.repair_core.caches import Rows, in_place_cache, read_rows, require_computed, set_length
from cachemend.repair_core.edits import Edit
from cachemend.repair_core.forward import input_device
from cachemend.repair_core.prefilling import as_batch
from cachemend.repair_core.relevance import Scores
from cachemend.repair_core.signals.observing import Observer, observe

BLOCK = 64


class _MassOnDeleted(Observer):
    """Probability on the deleted keys, per query."""

    def __init__(self, model: nn.Module, start: int, deleted: torch.Tensor, count: int) -> None:
        super().__init__(model, start)
        self.deleted = deleted
        self.mass = torch.zeros(count, dtype=torch.float64)

    def see(self, probabilities: torch.Tensor, first_key: int) -> None:
        inside = (self.deleted >= first_key) & (self.deleted < first_key + probabilities.shape[-1])
        columns = (self.deleted[inside] - first_key).to(probabilities.device)
        self.mass += probabilities.index_select(-1, columns).double().sum(dim=(0, 1, 2, 4)).cpu()


def deleted_mass(model: nn.Module, dirty: Cache, edit: Edit) -> Scores:
    """Attention mass of every retained token on deleted keys, mean over layers and heads. FP64 [S].

    The suffix is forwarded again in blocks of 64 at its original positions, each block seeing everything before it.

    Args:
        dirty: cache of the original context, batch 1; not modified.

    Raises:
        Refused: rows of inserted tokens were never computed.
    """
    if edit.suffix_length == 0:
        return torch.zeros(0, dtype=torch.float64).numpy()
    require_computed(dirty, "this signal")
    stop = int(edit.suffix_original_positions[0])
    rows = [Rows(_with_room(k, stop), _with_room(v, stop)) for k, v in read_rows(dirty)]
    cache = in_place_cache(rows, stop)
    ids = as_batch(model, edit.original_ids, input_device(model))
    deleted = torch.tensor(edit.deleted_positions)
    masses = []
    for start in range(stop, ids.shape[1], BLOCK):
        block = ids[:, start : start + BLOCK]
        observer = _MassOnDeleted(model, start, deleted, block.shape[1])
        set_length(cache, start)
        observe(model, cache, block, observer, ids.shape[1])
        masses.append(observer.mass * block.shape[1] / observer.cells)
    retained = torch.tensor(edit.suffix_original_positions) - stop
    return torch.cat(masses)[retained].numpy()


def _with_room(rows: torch.Tensor, kept: int) -> torch.Tensor:
    out = torch.empty_like(rows, memory_format=torch.contiguous_format)
    out[:, :, :kept] = rows[:, :, :kept]
    return out
