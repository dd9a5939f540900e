"""Where a model's weights lie: refresh needs all of them on devices that compute."""

from collections.abc import Mapping
from typing import Any

from torch import nn

from cachemend.repair_core.errors import Refused


def check_device_map(device_map: Any) -> None:
    """Refuse a device map that offloads; one that only names a device or a strategy passes.

    Args:
        device_map: as `from_pretrained` takes it, or a model's resolved `hf_device_map`.

    Raises:
        Refused: names the places: any module on disk, or some on the CPU beside an accelerator.
    """
    if not isinstance(device_map, Mapping):
        return
    places = {str(place).split(":")[0] for place in device_map.values()}
    offloaded = sorted(places & ({"disk", "meta"} if places <= {"cpu", "disk", "meta"} else {"cpu", "disk", "meta"}))
    if offloaded:
        raise Refused(f"device_map offloads layers to {', '.join(offloaded)}; put every layer on an accelerator")


def check_placement(model: nn.Module) -> None:
    """Refuse a loaded model with offloaded weights.

    Raises:
        Refused: its device map offloads, or weights are fetched by a hook at each forward.
    """
    check_device_map(getattr(model, "hf_device_map", None))
    # Between forwards, offloaded weights are placeholders without storage.
    absent = next((name for name, weight in model.named_parameters() if weight.is_meta), None)
    if absent is not None:
        raise Refused(
            f"weight {absent} is not on any device (offloaded or not loaded); load the model without offloading"
        )
    if type(getattr(model, "_hf_hook", None)).__name__ == "CpuOffload":
        raise Refused("the model moves between CPU and accelerator at each forward (cpu_offload_with_hook); remove it")
