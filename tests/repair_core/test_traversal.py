"""A packed refresh ends inside the model's forward and leaves nothing behind."""

import copy
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from accelerate.hooks import ModelHook, add_hook_to_module
from torch import nn
from transformers.cache_utils import DynamicCache
from transformers.utils import output_capturing

from cachemend.repair_core import Deletion, prefill, refresh, shift
from cachemend.repair_core.caches import clone_rows, read_rows
from cachemend.repair_core.executors.packed import PackedExecutor
from cachemend.repair_core.forward import base_model, model_lock
from cachemend.repair_core.invariants import caches_equal

from support.tiny_models import BY_NAME, VOCABULARY, build

IDS = np.random.default_rng(1).integers(3, VOCABULARY, 60).tolist()
DELETION = Deletion(prefix_ids=IDS[:10], deleted_ids=IDS[10:15], suffix_ids=IDS[15:])
POSITIONS = [10, 11, 20, 33, 54]
NAMES = ["llama", "mixtral", "gemma3", "gpt-oss", "llama4", "gpt-neox"]


def _setup(name: str) -> tuple:
    model = build(BY_NAME[name])
    return model, shift(model, prefill(model, DELETION.original_ids), DELETION)


def _everything(model: nn.Module) -> list[torch.Tensor]:
    with torch.no_grad():
        out = model(torch.tensor([IDS]), output_hidden_states=True, cache=DynamicCache())
    return [out.logits, *out.hidden_states, *(t for layer in read_rows(out.cache) for t in layer)]


def _count(module: nn.Module, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the forwards of `module` without a hook."""
    calls, forward = [], module.forward

    def counted(*args: object, **kwargs: object) -> object:
        calls.append(1)
        return forward(*args, **kwargs)

    monkeypatch.setattr(module, "forward", counted)
    return calls


@pytest.mark.parametrize("name", NAMES)
def test_a_forward_after_it_is_unchanged(name: str) -> None:
    model, shifted = _setup(name)
    untouched = copy.deepcopy(model)
    config = copy.deepcopy(model.config.to_dict())
    refresh(model, shifted, DELETION.edited_ids, POSITIONS)
    assert model.config.to_dict() == config
    assert model.config._attn_implementation == untouched.config._attn_implementation
    assert output_capturing._active_collector.get() is None
    assert torch.is_grad_enabled()
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(model_lock(model).acquire, timeout=1).result(), "the lock is free"
    assert all(torch.equal(a, b) for a, b in zip(_everything(model), _everything(untouched), strict=True))


def test_the_last_layer_stops_at_its_keys_and_values(monkeypatch: pytest.MonkeyPatch) -> None:
    model, shifted = _setup("llama")
    refresh(model, shifted, DELETION.edited_ids, POSITIONS)  # the first one also tries the model out
    layers = base_model(model).layers
    last, before = _count(layers[-1].mlp, monkeypatch), _count(layers[-2].mlp, monkeypatch)
    refresh(model, shifted, DELETION.edited_ids, POSITIONS)
    assert (len(last), len(before)) == (0, 1)


def test_modules_with_hooks_are_run_to_the_end() -> None:
    model, shifted = _setup("llama")
    stopped = refresh(model, shifted, DELETION.edited_ids, POSITIONS)
    seen: list[str] = []
    base_model(model).layers[-1].register_forward_hook(lambda *_: seen.append("after"))
    whole = refresh(model, shifted, DELETION.edited_ids, POSITIONS)
    assert seen == ["after"]
    assert caches_equal(read_rows(stopped), read_rows(whole))


def test_what_accelerate_does_before_a_forward_it_undoes_after() -> None:
    model, shifted = _setup("gpt-oss")
    expected = read_rows(refresh(model, shifted, DELETION.edited_ids, POSITIONS))
    opened: list[int] = []

    class Paired(ModelHook):
        def pre_forward(self, module: nn.Module, *args: object, **kwargs: object) -> tuple:
            opened.append(id(module))
            return args, kwargs

        def post_forward(self, module: nn.Module, output: object) -> object:
            opened.remove(id(module))
            return output

    for module in base_model(model).modules():
        add_hook_to_module(module, Paired())
    assert caches_equal(read_rows(refresh(model, shifted, DELETION.edited_ids, POSITIONS)), expected)
    assert not opened


def test_a_failing_forward_restores_the_model_and_the_input(monkeypatch: pytest.MonkeyPatch) -> None:
    model, shifted = _setup("llama")
    before, choice = clone_rows(read_rows(shifted)), model.config._attn_implementation

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(base_model(model).layers[2].mlp, "forward", broken)
        with pytest.raises(ZeroDivisionError):
            refresh(model, shifted, DELETION.edited_ids, POSITIONS)
    assert model.config._attn_implementation == choice
    assert caches_equal(read_rows(shifted), before)
    refresh(model, shifted, DELETION.edited_ids, POSITIONS)


def test_a_layer_that_was_never_written_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    model, shifted = _setup("llama")
    monkeypatch.setattr(model.config, "num_hidden_layers", 3)
    where, ids = torch.tensor([POSITIONS]), torch.tensor([DELETION.edited_ids])
    with pytest.raises(RuntimeError, match=r"never wrote layers \[3\]"):
        PackedExecutor().run(model, read_rows(shifted), ids, where, in_place=False)
