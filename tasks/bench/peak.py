"""Peak resident memory of a piece of work."""

import ctypes
import gc
from collections.abc import Callable
from pathlib import Path


def peak_bytes(function: Callable[[], object]) -> int | None:
    """How far the resident memory of this process rose while `function` ran; None where Linux does not tell.

    Freed memory is given back first; what the allocator kept all the same is missing from the figure.
    """
    reset = Path("/proc/self/clear_refs")
    if not reset.exists():
        return None
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    reset.write_text("5", encoding="ascii")
    before = _status("VmRSS")
    result = function()
    after = _status("VmHWM")
    del result
    return after - before


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))
