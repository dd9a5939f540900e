"""Random models of a named shape: their sizes, that they are the same each time, and that they must fit."""

from types import SimpleNamespace

import psutil
import pytest
import torch

from cachemend.repair_core.errors import InputError
from cachemend.repair_core.models import context_limit, load_model
from cachemend.repair_core.random_models import SHAPES, build_random, shape_bytes

CPU = torch.device("cpu")


def parameters(hidden: int, intermediate: int, layers: int, heads: int, kv: int, width: int, vocabulary: int) -> int:
    """Weights of a gated decoder with tied embeddings and no norms on queries and keys."""
    attention = hidden * width * (2 * heads + 2 * kv)
    return vocabulary * hidden + hidden + layers * (attention + 3 * hidden * intermediate + 2 * hidden)


def test_sizes_are_those_of_the_published_checkpoints() -> None:
    small = parameters(576, 1536, 30, 9, 3, 64, 49_152)
    assert shape_bytes("smollm2-135m", torch.float32) == 4 * small
    assert small == 134_515_008  # as its card states
    whole = parameters(4096, 12_288, 36, 32, 8, 128, 151_936) + 151_936 * 4096 + 36 * 2 * 128
    assert shape_bytes("qwen3-8b", torch.bfloat16) == 2 * whole
    assert round(whole / 1e9, 1) == 8.2


def test_an_unknown_shape_names_the_nearest() -> None:
    for call in (lambda: shape_bytes("qwen3-8", torch.float32), lambda: load_model("random:qwen3-8")):
        with pytest.raises(InputError, match=r"shape 'qwen3-8' is unknown; did you mean 'qwen3-8b'\? known: "):
            call()


def test_weights_that_do_not_fit_are_refused_before_any_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=2 * 2**30))
    with pytest.raises(
        InputError, match=r"'qwen3-8b' needs 15\.3 GiB .* in bfloat16, and 2\.0 GiB are free on cpu; sh"
    ):
        build_random("qwen3-8b", torch.bfloat16, CPU)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=1000))
    with pytest.raises(InputError, match=r"free on cpu$"):
        build_random("tiny", torch.bfloat16, CPU)


def test_a_random_model_is_the_same_each_time_and_leaves_the_random_state_alone() -> None:
    torch.manual_seed(5)
    state = torch.get_rng_state()
    first, second = (build_random("tiny", torch.bfloat16, CPU) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_default_dtype() == torch.float32
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert a.dtype == torch.bfloat16
        assert torch.equal(a, b)
    assert not first.training


def test_it_loads_by_name_with_a_tokenizer_whose_ids_it_knows() -> None:
    loaded = load_model("random:tiny", dtype="float32")
    assert (loaded.name, loaded.dtype, loaded.revision) == ("random:tiny", "float32", None)
    assert len(loaded.tokenizer) <= min(int(shape["vocab_size"]) for shape in SHAPES.values())
    assert load_model("random:tiny").dtype == "bfloat16"
    assert context_limit("random:tiny") == loaded.max_length
    with pytest.raises(InputError, match="device_map 'auto'"):
        load_model("random:tiny", device_map="auto")
