"""A model's FP32 twin: the same weights, promoted from their low precision (paper section 13.5)."""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from weakref import WeakKeyDictionary

import torch
from torch import nn

from cachemend.repair_core.caches import Rows
from cachemend.repair_core.forward import model_lock

LOW_PRECISION = (torch.bfloat16, torch.float16)

_twins: "WeakKeyDictionary[nn.Module, nn.Module]" = WeakKeyDictionary()


def is_low_precision(model: nn.Module) -> bool:
    """Whether the model's weights are BF16 or FP16."""
    return next(model.parameters()).dtype in LOW_PRECISION


def promoted(model: nn.Module) -> nn.Module:
    """A copy of the model with its weights and buffers in FP32, made on the first call and kept beside the model."""
    with model_lock(model):
        if model not in _twins:
            _twins[model] = copy.deepcopy(model).float().eval()
        return _twins[model]


def promoted_rows(rows: Sequence[Rows]) -> list[Rows]:
    """The same cached numbers in FP32."""
    return [Rows(keys.float(), values.float()) for keys, values in rows]


@contextmanager
def full_fp32() -> Iterator[None]:
    """FP32 products without TF32 inside the block."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
