"""What the released CacheBlend code computes: packed rows under a causal mask aligned to the bottom right."""

import torch
from torch import nn

from cachemend.repair_core.architecture import layer_windows
from cachemend.repair_core.executors.backends import plan_attention
from cachemend.repair_core.executors.packed import PackedExecutor
from cachemend.repair_core.executors.plan import AttentionPlan


class BottomRightExecutor(PackedExecutor):
    """Row r of B sees keys 0 to N - B + r, wherever it stands: a control, not a repair.

    It exists because results of that code are compared with: a causal mask for the last B of N tokens, applied to
    B selected ones. Rows see the future unless they are the last B, so no prefill computes what they become, and
    they are marked unknown. "auto" never takes it.
    """

    repairs = False

    def plan(self, model: nn.Module, positions: torch.Tensor, length: int) -> AttentionPlan:
        last_seen = torch.arange(length - positions.shape[1], length)[None]
        return plan_attention(self.attention, positions, layer_windows(model), last_seen)
