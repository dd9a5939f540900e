"""The attention of packed rows by SDPA and by explicit products, per number format: why the former is taken."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

from cachemend.repair_core import LoadedModel
from cachemend.repair_core.executors.packed_attention import ROW_GROUP, explicit_attention
from cachemend.repair_core.forward import base_model
from cachemend.tasks.bench.sampling import interleaved
from cachemend.tasks.bench.target import Target

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def bench_attention(loaded: LoadedModel, length: int = 2048, repeats: int = 9) -> list[Target]:
    """Print both times of one row group over all layers; SDPA should not be clearly the slower in any format."""
    config: Any = base_model(loaded.model).config
    kv_heads, width = config.num_key_value_heads, config.head_dim
    rows = ROW_GROUP * config.num_attention_heads // kv_heads
    layers = torch.randn(config.num_hidden_layers, 2, 1, kv_heads, length, width)
    query, mask = torch.randn(1, kv_heads, rows, width), torch.zeros(1, 1, rows, length)

    def attend(how: str, q: torch.Tensor, kv: torch.Tensor, m: torch.Tensor) -> None:
        for k, v in kv:
            if how == "SDPA":
                scaled_dot_product_attention(q, k, v, attn_mask=m)
            else:
                explicit_attention(q, k, v, m, width**-0.5, None, None)

    functions: dict[tuple[str, torch.dtype], Callable[[], None]] = {}
    for dtype in DTYPES:
        operands = [t.to(dtype) for t in (query, layers, mask)]
        functions |= {(how, dtype): partial(attend, how, *operands) for how in ("SDPA", "explicit")}
    times = interleaved(functions, repeats)
    print(f"\nAttention of {ROW_GROUP} packed rows over {length} keys, all layers")
    for (how, dtype), sample in times.items():
        print(f"  {str(dtype).removeprefix('torch.'):<9} {how:<9} {sample}")
    ratios = {dtype: times["explicit", dtype].median / times["SDPA", dtype].median for dtype in DTYPES}
    return [Target(f"explicit attention over SDPA, {d}", ratio, at_least=0.9) for d, ratio in ratios.items()]
