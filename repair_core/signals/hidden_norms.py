"""Hidden-state norms of an auxiliary model (paper Table 1: SpecCache)."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from cachemend.repair_core.architecture import text_config
from cachemend.repair_core.errors import Refused
from cachemend.repair_core.forward import base_model, input_device, model_lock
from cachemend.repair_core.pinning import pinned_frequencies
from cachemend.repair_core.prefilling import as_batch
from cachemend.repair_core.relevance import Scores


def hidden_norms(model: nn.Module, token_ids: Sequence[int]) -> Scores:
    """Mean L2 norm of each token's hidden state over the outputs of the last third of layers. FP64 [n].

    A third is rounded down, at least one layer; outputs are taken before the final norm. Norms are added up as the
    layers run, so no hidden state is kept.
    """
    base = base_model(model)
    layers = _layers(base)
    used = layers[-max(1, len(layers) // 3) :]
    total = torch.zeros(len(token_ids), dtype=torch.float64)

    def add(_module: nn.Module, _inputs: Any, output: Any) -> None:
        hidden = output[0] if isinstance(output, tuple) else output
        total.add_(hidden[0].double().norm(dim=-1).cpu())

    with model_lock(base), torch.no_grad(), pinned_frequencies(model, len(token_ids)):
        handles = [layer.register_forward_hook(add) for layer in used]
        try:
            base(input_ids=as_batch(model, token_ids, input_device(model)), use_cache=False)
        finally:
            for handle in handles:
                handle.remove()
    return (total / len(used)).numpy()


def _layers(base: nn.Module) -> list[nn.Module]:
    depth = text_config(base).num_hidden_layers
    for child in base.modules():
        if isinstance(child, nn.ModuleList) and len(child) == depth:
            return list(child)
    raise Refused(
        f"{type(base).__name__} keeps its decoder layers in no list of {depth}; it cannot be an auxiliary model"
    )
