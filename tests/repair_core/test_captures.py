"""How long a capture of a model is kept, with static refreshes in place of CUDA graphs."""

import gc
import weakref
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from cachemend.repair_core import prefill
from cachemend.repair_core.caches import read_rows
from cachemend.repair_core.executors.captures import Captures, ModelState, tensors_of
from cachemend.repair_core.executors.fused_projections import fused_projections, joining_moves
from cachemend.repair_core.executors.static_refresh import StaticRefresh

from support.tiny_models import BY_NAME, build


class _Counted:
    """A capture that moves the weights as that of joined projections does, and keeps their memory."""

    def __init__(self, model: nn.Module, fuses: bool = False) -> None:
        if fuses:
            with fused_projections(model):
                pass
        self.read = tensors_of(model)


def test_each_key_is_captured_once_though_the_first_moves_the_weights() -> None:
    model, captures = build(BY_NAME["llama"]), Captures[_Counted](4)
    plain = captures.get(model, "plain", lambda: _Counted(model))
    first, second = (captures.get(model, key, lambda: _Counted(model, fuses=True)) for key in ("16", "32"))
    assert captures.get(model, "16", pytest.fail) is first
    assert captures.get(model, "32", pytest.fail) is second
    assert [t.data_ptr() for t in first.read] == [t.data_ptr() for t in model.parameters()] + [
        t.data_ptr() for t in model.buffers()
    ]
    assert captures.get(model, "plain", lambda: _Counted(model)) is not plain, "its weights have moved"


def test_weights_elsewhere_are_captured_anew_and_the_old_memory_is_let_go() -> None:
    model, captures = build(BY_NAME["llama"]), Captures[_Counted](4)
    first = captures.get(model, "key", lambda: _Counted(model))
    model.load_state_dict({key: value + 1 for key, value in model.state_dict().items()})
    assert captures.get(model, "key", pytest.fail) is first, "new values at the old place are what a replay reads"
    before = weakref.ref(first)
    model.load_state_dict({key: value.clone() for key, value in model.state_dict().items()}, assign=True)
    assert captures.get(model, "key", lambda: _Counted(model)) is not first
    del first
    gc.collect()
    assert before() is None


def test_what_is_captured_holds_nothing_while_the_weights_move() -> None:
    model, captures = build(BY_NAME["llama"]), Captures[_Counted](4)
    plain = weakref.ref(captures.get(model, "plain", lambda: _Counted(model)))
    held: list[bool] = []

    def capture() -> _Counted:
        gc.collect()
        held.append(plain() is not None)
        return _Counted(model, fuses=True)

    captures.get(model, "16", capture, moves=joining_moves)
    other = captures.get(model, "32", capture, moves=joining_moves)
    assert held == [False, False]
    assert captures.get(model, "16", pytest.fail, moves=joining_moves) is not other, "joined once, nothing moves again"


def test_adapters_switched_without_a_new_tensor_are_another_state() -> None:
    model = build(BY_NAME["llama"])
    projection = model.model.layers[0].self_attn.q_proj
    adapter = SimpleNamespace(disable_adapters=False, active_adapters=["a"], merged_adapters=[], scaling={"a": 1.0})
    vars(projection).update(vars(adapter))
    states = [ModelState.of(model)]
    for change in ({"disable_adapters": True}, {"active_adapters": ["b"]}, {"merged_adapters": ["b"]}, {"scaling": {}}):
        vars(projection).update(change)
        states.append(ModelState.of(model))
    assert len(set(states)) == 5
    assert len({state.addresses for state in states}) == 1


def test_the_oldest_goes_when_there_are_too_many() -> None:
    model, captures = build(BY_NAME["llama"]), Captures[_Counted](2)
    first, _ = (captures.get(model, key, lambda: _Counted(model)) for key in "ab")
    assert captures.get(model, "a", pytest.fail) is first
    captures.get(model, "c", lambda: _Counted(model))
    assert captures.get(model, "a", pytest.fail) is first, "b was not used for longer"
    with pytest.raises(LookupError):
        captures.get(model, "b", lambda: {}["captured again"])


def test_captures_go_with_their_model() -> None:
    captures = Captures[StaticRefresh](4)
    gone = _captured_once(captures)
    gc.collect()
    assert [reference() for reference in gone] == [None, None]


def _captured_once(captures: Captures[StaticRefresh]) -> tuple[weakref.ref[StaticRefresh], weakref.ref[nn.Module]]:
    model = build(BY_NAME["llama"])
    rows = read_rows(prefill(model, list(range(3, 30))))

    def capture() -> StaticRefresh:
        static = StaticRefresh(model, rows, (16, 128), "sdpa")
        static.load(rows, torch.arange(3, 30)[None], torch.tensor([[3]]))
        static.step(model)
        return static

    return weakref.ref(captures.get(model, "key", capture)), weakref.ref(model)
