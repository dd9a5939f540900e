"""Wall time of one stage, with the device synchronised at both ends."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from cachemend.repair_core.forward import input_device


def synchronize(model: nn.Module) -> None:
    """Wait for the model's device, so that wall time means work done."""
    device = input_device(model)
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@contextmanager
def timed(timings: dict[str, float], name: str, model: nn.Module) -> Iterator[None]:
    """Store the seconds the body took as ``timings[name]``."""
    synchronize(model)
    start = time.perf_counter()
    yield
    synchronize(model)
    timings[name] = time.perf_counter() - start
