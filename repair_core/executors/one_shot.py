"""One-shot sparse executor: append the fresh rows, hide the stale duplicates, scatter afterwards."""

from collections.abc import Sequence

import torch
from torch import nn

from cachemend.repair_core.architecture import Window, layer_windows, text_config
from cachemend.repair_core.caches import Rows, clone_rows, plain_cache, read_rows
from cachemend.repair_core.executors.base import Executor
from cachemend.repair_core.forward import base_model, run


class OneShotExecutor(Executor):
    """One forward through the stock cache update with a ready-made 4D mask (the control of paper section 13.2)."""

    def run(
        self,
        model: nn.Module,
        rows: Sequence[Rows],
        ids: torch.Tensor,
        positions: torch.Tensor,
        in_place: bool,
    ) -> list[Rows]:
        length, device = ids.shape[1], ids.device
        where = positions.to(device)
        cache = plain_cache(rows)
        masks = {
            window: _additive(visible(where, length, window), rows[0].keys.dtype)
            for window in set(layer_windows(model))
        }
        mask = next(iter(masks.values())) if len(masks) == 1 else _by_layer_type(model, masks)
        run(base_model(model), ids.gather(1, where), cache, where, attention_mask=mask)
        out = list(rows) if in_place else clone_rows(rows)
        for (keys, values), extended in zip(out, read_rows(cache), strict=True):
            for target, source in ((keys, extended.keys), (values, extended.values)):
                index = where.to(target.device)[:, None, :, None].expand(-1, target.shape[1], -1, target.shape[3])
                target.scatter_(2, index, source[:, :, length:])
        return out


def visible(positions: torch.Tensor, length: int, window: Window | None) -> torch.Tensor:
    """Which of N cached and B appended rows each query sees. Bool [batch, 1, B, N + B].

    A cached row is visible when it is causally available and not about to be replaced; an appended row when
    it stands at or before the query.
    """
    batch = positions.shape[0]
    cached = torch.arange(length, device=positions.device).expand(batch, length)
    keys = torch.cat((cached, positions), dim=1)
    replaced = torch.zeros_like(cached, dtype=torch.bool).scatter_(1, positions, value=True)
    hidden = torch.cat((replaced, torch.zeros_like(positions, dtype=torch.bool)), dim=1)
    query = positions[:, :, None]
    seen = (keys[:, None] <= query) & ~hidden[:, None]
    if window is not None:
        seen &= keys[:, None] >= window.first(query)
    return seen[:, None]


def _additive(seen: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill_(~seen, torch.finfo(dtype).min)


def _by_layer_type(model: nn.Module, masks: dict[Window | None, torch.Tensor]) -> dict[str, torch.Tensor]:
    pairs = zip(text_config(model).layer_types, layer_windows(model), strict=True)
    return {kind: masks[window] for kind, window in pairs}
