"""The attention backends of the packed executor by name, and which of them this machine runs."""

import warnings
from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple

import torch

from cachemend.repair_core.architecture import HeadWidths, Window
from cachemend.repair_core.errors import InputError, nearest
from cachemend.repair_core.executors.packed_attention import PackedPlan
from cachemend.repair_core.executors.plan import AttentionPlan

DEFAULT = "sdpa"
_TRITON = "cachemend.repair_core.executors.triton_attention"
# Imported on first use: Triton is installed on Linux only, and not every machine runs it.
_LATER = {
    "flex": ("cachemend.repair_core.executors.flex", "FlexPlan"),
    "triton": (_TRITON, "TritonPlan"),
    "triton-split": (_TRITON, "SplitTritonPlan"),
    "triton-fused": (_TRITON, "FusedTritonPlan"),
}
ATTENTIONS = (DEFAULT, *_LATER)
TRITON_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
TRITON_CAPABILITY = (8, 0)


class AttentionFallback(UserWarning):
    """Another attention backend runs than the one asked for."""


class Availability(NamedTuple):
    """Whether a backend runs, and how it runs or why it does not."""

    runs: bool
    detail: str


def check_attention_name(name: str) -> None:
    """Raise InputError unless `name` is a backend."""
    if name not in ATTENTIONS:
        raise InputError(f"attention backend {name!r} is unknown; {nearest(name, ATTENTIONS)}")


def availability(name: str, device: torch.device, dtype: torch.dtype, widths: HeadWidths | None = None) -> Availability:
    """Whether backend `name` can attend over keys of `dtype` on `device`.

    Args:
        name: of the backend.
        device: of the cache.
        dtype: of the cache.
        widths: of the heads; None where they are not known, and then not looked at.

    Raises:
        InputError: unknown name.
    """
    check_attention_name(name)
    if name.startswith("triton"):
        return _triton(device, dtype, widths)
    if name == "flex" and device.type != "cuda":
        return Availability(True, f"runs on {device.type}, uncompiled: a check, not fast")
    return Availability(True, f"runs on {device.type}")


def _triton(device: torch.device, dtype: torch.dtype, widths: HeadWidths | None) -> Availability:
    if find_spec("triton") is None:
        return Availability(False, "the package triton is not installed (it exists for Linux)")
    if dtype not in TRITON_DTYPES:
        return Availability(False, f"the cache holds {dtype}; Triton attention takes float32, bfloat16 or float16")
    from cachemend.repair_core.executors.triton_kernels import INTERPRETED

    if device.type != "cuda":
        if INTERPRETED:
            return Availability(True, f"runs on {device.type}, interpreted: slow")
        told = "no CUDA device" if not torch.cuda.is_available() else f"the model is on {device.type}"
        return Availability(False, f"{told}; TRITON_INTERPRET=1, set before Python starts, runs it slowly")
    capability = torch.cuda.get_device_capability(device)
    if capability < TRITON_CAPABILITY:
        return Availability(False, f"needs compute capability 8.0; this device has {'.'.join(map(str, capability))}")
    lacking = _too_wide(widths, device, dtype) if widths is not None else None
    return Availability(lacking is None, lacking or f"runs on {device.type}")


def _too_wide(widths: HeadWidths, device: torch.device, dtype: torch.dtype) -> str | None:
    """What keeps a CUDA device from holding the tiles of heads this wide; None where nothing does."""
    from cachemend.repair_core.executors.triton_attention import shared_bytes

    properties = torch.cuda.get_device_properties(device)
    # Not every vendor's devices tell a larger size for those that ask for it.
    most = getattr(properties, "shared_memory_per_block_optin", properties.shared_memory_per_block)
    needed = shared_bytes(widths, dtype)
    if needed <= most:
        return None
    kind = str(dtype).removeprefix("torch.")
    return f"heads of {max(widths)} in {kind} need {needed:,} B of shared memory; this device has {most:,} B"


def require_attention(name: str, device: torch.device, dtype: torch.dtype, widths: HeadWidths | None = None) -> None:
    """Raise InputError where backend `name` cannot run, see `availability`; the line says why."""
    found = availability(name, device, dtype, widths)
    if not found.runs:
        raise InputError(f"attention backend {name!r} cannot run here: {found.detail}; {DEFAULT!r} runs everywhere")


def attention_or_default(name: str, device: torch.device, dtype: torch.dtype, widths: HeadWidths | None = None) -> str:
    """`name` where it can run, see `availability`; else the default, with an `AttentionFallback` warning that says why.

    Raises:
        InputError: unknown name.
    """
    found = availability(name, device, dtype, widths)
    if found.runs:
        return name
    told = f"attention backend {name!r} cannot run here ({found.detail}); {DEFAULT!r} is used instead"
    warnings.warn(told, AttentionFallback, stacklevel=3)
    return DEFAULT


def plan_attention(
    name: str, positions: torch.Tensor, windows: tuple[Window | None, ...], last_seen: torch.Tensor | None = None
) -> AttentionPlan:
    """The plan of backend `name`; the other arguments are those of `AttentionPlan.build`."""
    return plan_class(name).build(positions, windows, last_seen)


def plan_class(name: str) -> type[AttentionPlan]:
    """The kind of plan that backend `name` makes."""
    if name not in _LATER:
        return PackedPlan
    module, attribute = _LATER[name]
    kind: type[AttentionPlan] = getattr(import_module(module), attribute)
    return kind
