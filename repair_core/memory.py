"""How much memory a batch may take."""

import psutil
import torch

# Several workers share a machine, and a batch is not all that one of them holds.
SHARE = 4


def batch_bytes(device: torch.device) -> int:
    """Bytes that caches joined into one batch may take: a quarter of what is free on `device` now."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0]) // SHARE
    return int(psutil.virtual_memory().available) // SHARE
