"""Loading a model and its tokenizer: an embedded one, a local folder or a Hugging Face name."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase

from cachemend.repair_core.architecture import check_capability, text_config
from cachemend.repair_core.embedded import EMBEDDED, embedded_copy
from cachemend.repair_core.errors import InputError, nearest
from cachemend.repair_core.placement import check_device_map
from cachemend.repair_core.proving import prove_refresh
from cachemend.repair_core.random_models import PREFIX, build_random, is_random, random_dtype, shape_config

DTYPES = ("float32", "bfloat16", "float16", "auto")
WEIGHT_PATTERNS = ("*.safetensors", "*.gguf")


@dataclass(frozen=True, kw_only=True)
class LoadedModel:
    """A model ready for repair.

    Attributes:
        model: the causal language model, in evaluation mode.
        tokenizer: its tokenizer.
        name: the name it was asked for by.
        revision: the hub commit or requested revision; None for local folders.
        dtype: the weights' dtype, e.g. "float32".
        fingerprint: 16 hex digits over configuration and a sample of every parameter: equal names with other
            weights get other fingerprints.
        max_length: the longest context in tokens the configuration allows, or None.
    """

    model: nn.Module
    tokenizer: PreTrainedTokenizerBase
    name: str
    revision: str | None
    dtype: str
    fingerprint: str
    max_length: int | None


def resolve(name: str) -> str:
    """Return what `from_pretrained` takes for `name`: a folder path or a hub name.

    Raises:
        InputError: a folder without weights, or a path that does not exist.
    """
    if name in EMBEDDED:
        return str(embedded_copy(name))
    path = Path(name).expanduser()
    try:
        is_folder = path.is_dir()
    except OSError as error:
        raise InputError(_cannot_load(name[:80], error)) from error
    if is_folder:
        if not any(next(path.glob(pattern), None) for pattern in WEIGHT_PATTERNS):
            raise InputError(f"model folder {name} holds no weights; expected *.safetensors or *.gguf")
        return str(path)
    if path.is_absolute() or name.startswith((".", "~")):
        raise InputError(f"model folder {name} does not exist; give a folder with config.json and weights")
    return name


def load_tokenizer(name: str, revision: str | None = None, trust_remote_code: bool = False) -> PreTrainedTokenizerBase:
    """Load the tokenizer of `name`; raises InputError like `load_model`. A random model gets an embedded one's."""
    if is_random(name):
        name = next(iter(EMBEDDED))
    source = resolve(name)
    gguf = _gguf_file(source)
    try:
        return AutoTokenizer.from_pretrained(
            source,
            revision=revision,
            trust_remote_code=trust_remote_code,
            **({"gguf_file": gguf} if gguf else {}),
        )
    except (OSError, ValueError) as error:
        raise InputError(_cannot_load(name, error)) from error


def load_model(
    name: str,
    dtype: str = "auto",
    device: str | None = None,
    revision: str | None = None,
    device_map: str | dict[str, Any] | None = None,
    trust_remote_code: bool = False,
) -> LoadedModel:
    """Load a causal language model and check, also by a refresh of a few tokens, that repair supports it.

    Args:
        name: "smollm2-135m" (embedded), a local folder, a Hugging Face name, or "random:" and a shape's name for
            random weights, in BF16 unless `dtype` says otherwise.
        dtype: "float32", "bfloat16", "float16", or "auto" for the checkpoint's own.
        device: e.g. "cuda:0"; None leaves the model on the CPU unless `device_map` places it.
        revision: hub branch, tag or commit.
        device_map: passed to `from_pretrained`; one that offloads is refused.
        trust_remote_code: run code that comes with the checkpoint; off unless asked for.

    Raises:
        InputError: unknown model or dtype, a folder without weights, a checkpoint that cannot be loaded.
        Refused: a model that repair does not support, named.
    """
    if dtype not in DTYPES:
        raise InputError(f"dtype {dtype!r} is unknown; {nearest(dtype, DTYPES)}")
    check_device_map(device_map)
    if is_random(name):
        if device_map is not None:
            raise InputError(f"model {name!r} is built on one device; give device instead of device_map {device_map!r}")
        model = build_random(name.removeprefix(PREFIX), random_dtype(dtype), torch.device(device or "cpu"))
    else:
        model = _pretrained(name, dtype, device, revision, device_map, trust_remote_code)
    model.eval()
    check_capability(model)
    prove_refresh(model)
    return LoadedModel(
        model=model,
        tokenizer=load_tokenizer(name, revision, trust_remote_code),
        name=name,
        revision=getattr(model.config, "_commit_hash", None) or revision,
        dtype=str(next(model.parameters()).dtype).removeprefix("torch."),
        fingerprint=fingerprint(model),
        max_length=getattr(text_config(model), "max_position_embeddings", None),
    )


def _pretrained(
    name: str,
    dtype: str,
    device: str | None,
    revision: str | None,
    device_map: str | dict[str, Any] | None,
    trust_remote_code: bool,
) -> Any:
    source = resolve(name)
    options: dict[str, Any] = {"revision": revision, "trust_remote_code": trust_remote_code}
    if gguf := _gguf_file(source):
        options["gguf_file"] = gguf
    else:
        options["use_safetensors"] = True
    try:
        model, info = AutoModelForCausalLM.from_pretrained(
            source, dtype=dtype, device_map=device_map, output_loading_info=True, **options
        )
        if device is not None:
            model = model.to(device)
    except (OSError, ValueError, KeyError, RuntimeError, AssertionError, SafetensorError) as error:
        raise InputError(_cannot_load(name, error)) from error
    if absent := sorted(map(str, {*info["missing_keys"], *info["mismatched_keys"]})):
        raise InputError(
            f"model {name!r} lacks weights its configuration asks for ({len(absent)}, e.g. {absent[0]}); "
            "they would be random"
        )
    return model


def context_limit(name: str, revision: str | None = None, trust_remote_code: bool = False) -> int | None:
    """The longest context in tokens that the configuration of `name` allows, without loading weights."""
    if is_random(name):
        return int(shape_config(name.removeprefix(PREFIX)).max_position_embeddings)
    source = resolve(name)
    gguf = _gguf_file(source)
    try:
        config = AutoConfig.from_pretrained(
            source,
            revision=revision,
            trust_remote_code=trust_remote_code,
            **({"gguf_file": gguf} if gguf else {}),
        )
    except (OSError, ValueError) as error:
        raise InputError(_cannot_load(name, error)) from error
    limit = getattr(config.get_text_config(decoder=True), "max_position_embeddings", None)
    return int(limit) if limit else None


def fingerprint(model: nn.Module) -> str:
    """Hash of the configuration and of the first values of every parameter."""
    digest = hashlib.sha256(type(model).__name__.encode())
    stated: Any = model.config
    config = {k: v for k, v in stated.to_dict().items() if not k.startswith("_") and k != "dtype"}
    config.pop("transformers_version", None)
    digest.update(json.dumps(config, sort_keys=True, default=str).encode())
    for name, parameter in model.named_parameters():
        digest.update(f"{name}{tuple(parameter.shape)}".encode())
        weights = parameter.detach()
        # Quantised weights that pose as floating point cannot be sliced flat.
        if weights.is_floating_point() and type(weights) is not torch.Tensor:
            weights = weights.dequantize()
        digest.update(weights.flatten()[:64].float().cpu().numpy().tobytes())
    return digest.hexdigest()[:16]


def _gguf_file(source: str) -> str | None:
    path = Path(source)
    if not path.is_dir() or next(path.glob("*.safetensors"), None):
        return None
    found = next(path.glob("*.gguf"), None)
    return found.name if found else None


def _cannot_load(name: str, error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return f"model {name!r} cannot be loaded ({lines[0]}); {nearest(name, EMBEDDED)}, a folder, or a hub name"
