"""The small refresh that every model must pass before the first real one."""

import pytest
import torch

from cachemend.repair_core import Refused, refresh
from cachemend.repair_core.caches import Rows, plain_cache
from cachemend.repair_core.proving import prove_refresh

from support.tiny_models import BY_NAME, Tiny, build


@pytest.mark.parametrize("name", ["gemma3", "llama4"])
def test_the_windows_of_the_model_are_put_back(name: str) -> None:
    model = build(BY_NAME[name])
    before = model.config.sliding_window if name == "gemma3" else model.config.attention_chunk_size
    prove_refresh(model)
    after = model.config.sliding_window if name == "gemma3" else model.config.attention_chunk_size
    assert before == after == 24


def test_a_model_that_sees_the_future_is_refused_before_a_refresh() -> None:
    model = build(Tiny("bert", "bert", {"is_decoder": False}))
    rows = [Rows(torch.zeros(1, 6, 20, 8), torch.zeros(1, 6, 20, 8))] * 4
    with pytest.raises(Refused, match="model type 'bert'"):
        refresh(model, plain_cache(rows), list(range(5, 25)), [3])


def test_a_window_that_only_the_configuration_knows_is_refused() -> None:
    with pytest.raises(Refused, match="disagree"):
        prove_refresh(build(Tiny("moshi", "moshi", {"sliding_window": 24})))


def test_the_proof_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(BY_NAME["llama"])
    prove_refresh(model)
    forwards = []
    model.model.register_forward_hook(lambda *_: forwards.append(1))
    prove_refresh(model)
    assert not forwards
