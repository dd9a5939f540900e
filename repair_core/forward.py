"""One way to call a transformers model with a cache, whatever its version names the argument."""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock, RLock
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn
from transformers.cache_utils import Cache


def base_model(model: nn.Module) -> nn.Module:
    """The decoder without its language-model head."""
    # An adapter's wrapper calls the model it wraps its base model.
    inner: nn.Module = model.get_base_model() if hasattr(model, "get_base_model") else model  # type: ignore[operator]
    base: nn.Module = getattr(inner, "base_model", inner)
    return base


def cache_argument(module: nn.Module) -> str:
    """The name under which `module` takes its cache.

    Older releases swallow an unknown ``cache=`` silently and then run without one, so the name is read
    from the signature instead of tried.
    """
    return "cache" if takes(module, "cache") else "past_key_values"


def takes(module: nn.Module, argument: str) -> bool:
    """Whether the module's forward names this argument."""
    return argument in inspect.signature(module.forward).parameters


class Enough(Exception):
    """Raised by a cache or an attention function inside a forward: the layers above it are not needed."""


def run(module: nn.Module, input_ids: torch.Tensor, cache: Cache, position_ids: torch.Tensor, **kwargs: Any) -> Any:
    """Forward `input_ids` [batch, n] at `position_ids` [batch or 1, n], writing their rows into `cache`.

    Returns the module's output; None when the traversal was ended by `Enough`.
    """
    kwargs[cache_argument(module)] = cache
    with model_lock(module), torch.no_grad(), suppress(Enough):
        return module(input_ids=input_ids, position_ids=position_ids, use_cache=True, **kwargs)
    return None


_locks: "WeakKeyDictionary[nn.Module, RLock]" = WeakKeyDictionary()
_locks_guard = Lock()


def model_lock(model: nn.Module) -> RLock:
    """The lock under which this package runs `model`: a packed refresh changes its shared configuration."""
    with _locks_guard:
        return _locks.setdefault(base_model(model), RLock())


@contextmanager
def attention_function(model: nn.Module, name: str) -> Iterator[None]:
    """Run the decoder with the attention function registered as `name`.

    The function is chosen through the model's shared configuration, so the model's lock is held meanwhile.
    """
    base = base_model(model)
    with model_lock(base):
        configs: dict[int, Any] = {id(m.config): m.config for m in base.modules() if hasattr(m, "config")}
        before = {key: config._attn_implementation for key, config in configs.items()}
        try:
            for config in configs.values():
                config._attn_implementation = name
            yield
        finally:
            for key, config in configs.items():
                config._attn_implementation = before[key]


def input_device(model: nn.Module) -> torch.device:
    """The device on which token ids enter the model (its embedding's, also under a device map)."""
    embedding: nn.Module = model.get_input_embeddings()  # type: ignore[operator]
    return next(embedding.parameters()).device
