"""How fast a machine runs a model's layers, and the small file in the user's cache that keeps it."""

import hashlib
import json
import platform
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import pairwise
from math import exp, log
from pathlib import Path
from typing import Any

import torch
from torch import nn

from cachemend.repair_core.architecture import rope_types
from cachemend.repair_core.embedded import cache_folder
from cachemend.repair_core.errors import InputError
from cachemend.repair_core.forward import input_device
from cachemend.repair_core.shapes import decoder_layers, model_shapes
from cachemend.repair_core.whole_file import write_whole

FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Calibrated speeds of one model's kind of layers on one machine.

    Attributes:
        traversal: seconds of one forward outside its layers.
        rows: row counts at which the rate was measured, ascending.
        rates: FLOP/s of a layer's products at each of them, with all that a layer does beside attention: the launch
            of its operations and the reading of its weights (of a mixture, of the experts that so many rows touch).
        attention: FLOP/s of the model's own attention.
        history: bytes/s at which it takes in the K/V of earlier rows (concatenation, repetition over heads).
        packed: FLOP/s of the packed executor's attention.
        packed_group: seconds per layer and group of packed rows.
        copy: bytes/s of copying K/V rows.
        shift: bytes/s of shifting K/V rows.
        signal: seconds per suffix token of units and relevance, without the tokenizer's share.
    """

    traversal: float
    rows: tuple[int, ...]
    rates: tuple[float, ...]
    attention: float
    history: float
    packed: float
    packed_group: float
    copy: float
    shift: float
    signal: float

    def __post_init__(self) -> None:
        for name in ("traversal", "packed_group", "signal"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise InputError(f"{name} is {getattr(self, name)}; give seconds, 0 or more")
        speeds = {name: (getattr(self, name),) for name in ("attention", "history", "packed", "copy", "shift")}
        for name, values in {**speeds, "rates": self.rates}.items():
            if not all(value > 0 for value in values):
                raise InputError(f"{name} is {getattr(self, name)}; a speed is above 0")
        if not self.rows or len(self.rows) != len(self.rates) or self.rows[0] < 1:
            raise InputError(f"{len(self.rows)} row counts and {len(self.rates)} rates; give one rate per row count")
        seconds = [n / rate for n, rate in zip(self.rows, self.rates, strict=True)]
        if any(a >= b for a, b in pairwise(self.rows)) or any(a > b * (1 + 1e-9) for a, b in pairwise(seconds)):
            raise InputError("rows must ascend, and more rows cannot take less time")

    def products_seconds(self, rows: int, row_flops: float) -> float:
        """Seconds of `row_flops` for each of `rows` rows; between measured row counts linear in both logarithms."""
        if rows <= 0:
            return 0.0
        return rows * row_flops / self._rate(rows)

    def _rate(self, rows: int) -> float:
        if rows >= self.rows[-1] or len(self.rows) == 1:
            return self.rates[-1]
        right = next((i for i, n in enumerate(self.rows) if n > rows), len(self.rows) - 1)
        if right == 0:  # below the first measured count a forward takes as long as at it
            return self.rates[0] * rows / self.rows[0]
        left = right - 1
        along = (log(rows) - log(self.rows[left])) / (log(self.rows[right]) - log(self.rows[left]))
        return exp((1 - along) * log(self.rates[left]) + along * log(self.rates[right]))


def calibration_key(model: nn.Module) -> dict[str, Any]:
    """What a calibration depends on."""
    shapes = model_shapes(model)
    weights = [[tuple(p.shape) for p in layer.parameters()] for layer in decoder_layers(model)]
    device = input_device(model)
    return {
        "format": FORMAT,
        "device": device_name(device),
        "threads": torch.get_num_threads() if device.type == "cpu" else 0,
        "dtype": str(next(model.parameters()).dtype).removeprefix("torch."),
        "torch": torch.__version__,
        "attention": shapes.attention,
        "model": type(model).__name__,
        "positions": list(rope_types(model)),
        "layers": hashlib.sha256(json.dumps(weights).encode()).hexdigest()[:16],
    }


def device_name(device: torch.device) -> str:
    """The accelerator's name, or the processor's."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8", errors="replace").splitlines() if info.is_file() else []
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{device.type}: {named[0] if named else platform.processor() or platform.machine()}"


def machine_file(key: dict[str, Any]) -> Path:
    """Where the calibration of `key` is kept, beside the embedded models."""
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
    return cache_folder().parent / "machines" / f"{digest}.json"


def read_machine(path: Path, key: dict[str, Any]) -> Machine | None:
    """The calibration in `path`; None when there is none for `key` or it is damaged."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["key"] != key:
            return None
        values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in content["machine"].items()}
        return Machine(**values)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def write_machine(path: Path, key: dict[str, Any], machine: Machine) -> None:
    """Write `machine` atomically; where that is impossible (no folder to write to, another thing at `path`), do not."""
    with suppress(OSError):
        write_whole(path, json.dumps({"key": key, "machine": asdict(machine)}).encode())
