"""Choosing a backend: whole refreshes agree, what cannot run is refused or announced."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from cachemend.flows import doctor
from cachemend.flows.config import ErasingNiahConfig
from cachemend.repair_core import (
    Deletion,
    InputError,
    LoadedModel,
    Tokens,
    load_model,
    prefill,
    refresh,
    repair,
    repair_batch,
    shift,
)
from cachemend.repair_core.architecture import HeadWidths, head_widths
from cachemend.repair_core.caches import Rows, read_rows
from cachemend.repair_core.executors import EXECUTORS, EXPERIMENTAL, backends, get_executor
from cachemend.repair_core.executors.backends import (
    ATTENTIONS,
    AttentionFallback,
    Availability,
    attention_or_default,
    availability,
    require_attention,
)
from cachemend.repair_core.invariants import changed_rows
from cachemend.tasks.actors import RepairWorker
from cachemend.tasks.worker_spec import WorkerSpec

from support.tiny_checkpoint import save_tiny
from support.tiny_models import BY_NAME, VOCABULARY, build

pytest.importorskip("triton", reason="triton is installed on Linux only")

CPU = torch.device("cpu")
IDS = np.random.default_rng(3).integers(3, VOCABULARY, 60).tolist()
DELETION = Deletion(prefix_ids=IDS[:10], deleted_ids=IDS[10:15], suffix_ids=IDS[15:])
POSITIONS = [10, 11, 20, 33, 34, 54]
others = pytest.mark.parametrize("attention", [name for name in ATTENTIONS if name != "sdpa"])


def _worst(a: list[Rows], b: list[Rows]) -> float:
    pairs = [(x, y) for p, q in zip(a, b, strict=True) for x, y in zip(p, q, strict=True)]
    # Unlike Python's, this maximum of numbers with a NaN is NaN.
    return float(torch.stack([(x - y).abs().max() / y.abs().max() for x, y in pairs]).max())


@others
@pytest.mark.parametrize("name", ["llama", "gemma2", "gpt-oss", "llama4", "deepseek-v3"])
def test_a_whole_refresh_equals_that_with_sdpa(name: str, attention: str) -> None:
    model = build(BY_NAME[name])
    shifted = shift(model, prefill(model, DELETION.original_ids), DELETION)
    stock, ours = (
        read_rows(refresh(model, shifted, DELETION.edited_ids, POSITIONS, attention=how)) for how in ("sdpa", attention)
    )
    assert _worst(ours, stock) <= 1e-5
    assert set(changed_rows(read_rows(shifted), ours)) == set(POSITIONS), "all other rows keep their bits"


@others
def test_a_batch_with_positions_of_its_own(attention: str) -> None:
    model = build(BY_NAME["qwen3"])
    ids = [IDS[:40], IDS[20:]]
    cache = prefill(model, ids)
    other = [ids[0][:5] + ids[0][6:] + [4], ids[1][::-1]]
    where = [[3, 9, 30], [0, 17, 39]]
    stock, ours = (read_rows(refresh(model, cache, other, where, attention=how)) for how in ("sdpa", attention))
    assert _worst(ours, stock) <= 1e-5


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load_model(str(save_tiny(tmp_path_factory.mktemp("tiny"))))


@pytest.fixture
def no_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "_triton", lambda *_: Availability(False, "no CUDA device"))


def _edit(loaded: LoadedModel) -> Deletion:
    ids = loaded.tokenizer("The baker opened the shop. A red bicycle leaned on it. " * 4)["input_ids"]
    return Deletion(prefix_ids=ids[:5], deleted_ids=ids[5:9], suffix_ids=ids[9:])


@pytest.mark.usefixtures("no_triton")
def test_repair_announces_what_it_uses_instead(loaded: LoadedModel) -> None:
    edit, arguments = _edit(loaded), (loaded.model, loaded.tokenizer)
    with pytest.warns(AttentionFallback, match=r"'triton' cannot run here \(no CUDA device\); 'sdpa' is used instead"):
        done = repair(*arguments, edit, "bicycle", 20, attention="triton")
    with pytest.warns(AttentionFallback):
        (batched,) = repair_batch(*arguments, [edit], ["bicycle"], 20, attention="triton-split")
    assert (done.attention, batched.attention) == ("sdpa", "sdpa")


@pytest.mark.usefixtures("no_triton")
def test_refresh_uses_no_other_backend_than_it_was_told(loaded: LoadedModel) -> None:
    ids = _edit(loaded).edited_ids
    with pytest.raises(InputError, match="'triton' cannot run here: no CUDA device; 'sdpa' runs everywhere"):
        refresh(loaded.model, prefill(loaded.model, ids), ids, [3], attention="triton")


@pytest.mark.filterwarnings("error")
def test_what_runs_is_recorded_without_a_word(loaded: LoadedModel) -> None:
    for attention in ("sdpa", "triton"):
        done = repair(loaded.model, loaded.tokenizer, _edit(loaded), "bicycle", 5, attention=attention)
        assert done.attention == attention


@pytest.mark.usefixtures("no_triton")
def test_a_worker_refuses_before_its_first_case(tmp_path: Path) -> None:
    spec = {"model": str(save_tiny(tmp_path)), "max_new_tokens": 4, "score_rule": "first"}
    RepairWorker(WorkerSpec(**spec), 1, False).load()
    with pytest.raises(InputError, match="'triton' cannot run here"):
        RepairWorker(WorkerSpec(**spec, attention="triton"), 1, False).load()
    with pytest.raises(ValueError, match="executor 'interval' has none"):
        ErasingNiahConfig(executor="interval", attention="triton")


def test_bad_choices_are_named(loaded: LoadedModel) -> None:
    edit = _edit(loaded)
    for attention, told in (("tritan", "did you mean 'triton'"), ("flash9", "known: flex, sdpa, triton")):
        with pytest.raises(InputError, match=told):
            repair(loaded.model, loaded.tokenizer, edit, "bicycle", attention=attention)
    with pytest.raises(InputError, match="'flex' is one of the packed executor; executor 'interval' has none"):
        repair(loaded.model, loaded.tokenizer, edit, "bicycle", executor="interval", attention="flex")


@pytest.mark.parametrize("n_intervals", [1, 4])
def test_auto_runs_the_backend_it_was_given(n_intervals: int) -> None:
    for attention in ATTENTIONS[1:]:
        chosen = get_executor("auto", n_intervals, attention)
        assert type(chosen) is EXECUTORS["packed"]
        assert chosen.attention == attention
    assert type(get_executor("auto", 1)) is EXECUTORS["direct"]


def test_what_auto_records_is_what_ran(loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    from cachemend.repair_core.executors.flex import FlexPlan

    layers: list[int] = []
    attend = FlexPlan.attend
    monkeypatch.setattr(FlexPlan, "attend", lambda *given, **more: layers.append(1) or attend(*given, **more))
    edit, arguments = _edit(loaded), (loaded.model, loaded.tokenizer)
    one = {"budget": Tokens(1), "executor": "auto", "attention": "flex"}
    (batched,) = repair_batch(*arguments, [edit], ["bicycle"], **one)
    for done in (repair(*arguments, edit, "bicycle", **one), batched):
        assert len(done.intervals) == 1
        assert done.attention == "flex"
    assert layers
    layers.clear()
    refresh(loaded.model, prefill(loaded.model, edit.edited_ids), edit.edited_ids, [5], "auto", "flex")
    assert layers


def test_reasons_are_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    assert availability("sdpa", CPU, torch.float64) == (True, "runs on cpu")
    assert "uncompiled" in availability("flex", CPU, torch.float32).detail
    assert not availability("triton", CPU, torch.float64).runs
    from cachemend.repair_core.executors import triton_kernels

    monkeypatch.setattr(triton_kernels, "INTERPRETED", False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    told = availability("triton", CPU, torch.float32)
    assert told == (False, "no CUDA device; TRITON_INTERPRET=1, set before Python starts, runs it slowly")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (7, 5))
    assert "this device has 7.5" in availability("triton-split", torch.device("cuda"), torch.float16).detail
    monkeypatch.setattr(backends, "find_spec", lambda _: None)
    assert "not installed" in availability("triton-fused", CPU, torch.float32).detail


# What Triton 3.7 compiled `attend_tile` to for compute capability 8.0, in bytes.
@pytest.mark.parametrize(
    ("dtype", "widths", "needed"),
    [
        (torch.float32, (64, 64), 49_152),
        (torch.float32, (128, 128), 90_112),
        (torch.float32, (192, 128), 139_264),
        (torch.float32, (64, 256), 98_304),
        (torch.float32, (256, 256), 172_032),
        (torch.bfloat16, (64, 64), 26_624),
        (torch.bfloat16, (128, 128), 45_056),
    ],
)
def test_shared_memory_of_heads(dtype: torch.dtype, widths: tuple[int, int], needed: int) -> None:
    from cachemend.repair_core.executors.triton_attention import shared_bytes

    assert shared_bytes(HeadWidths(*widths), dtype) == needed


def test_heads_too_wide_for_a_device_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    small = SimpleNamespace(shared_memory_per_block_optin=101_376, shared_memory_per_block=49_152)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 9))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: small)
    device = torch.device("cuda")
    wide = HeadWidths(256, 256)
    assert availability("triton", device, torch.float32, wide) == (
        False,
        "heads of 256 in float32 need 172,032 B of shared memory; this device has 101,376 B",
    )
    assert availability("triton", device, torch.float32, HeadWidths(128, 128)).runs
    assert availability("triton", device, torch.bfloat16, wide).runs
    assert availability("sdpa", device, torch.float32, wide).runs
    with pytest.warns(AttentionFallback, match="172,032 B"):
        assert attention_or_default("triton-split", device, torch.float32, wide) == "sdpa"
    with pytest.raises(InputError, match="172,032 B"):
        require_attention("triton-fused", device, torch.float32, wide)


@pytest.mark.parametrize(("name", "widths"), [("llama", (16, 16)), ("deepseek-v3", (20, 10))])
def test_widths_are_those_attention_reads(name: str, widths: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    from cachemend.repair_core.executors.packed_attention import PackedPlan

    model, seen = build(BY_NAME[name]), set()
    attend = PackedPlan.attend

    def look(plan: PackedPlan, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *more: Any) -> torch.Tensor:
        seen.add((key.shape[-1], value.shape[-1]))
        return attend(plan, query, key, value, *more)

    monkeypatch.setattr(PackedPlan, "attend", look)
    refresh(model, prefill(model, IDS), IDS, [5])
    assert seen == {head_widths(model)} == {widths}


@pytest.mark.usefixtures("no_triton")
def test_doctor_says_what_does_not_run_and_passes() -> None:
    checks = {check.name: check for check in doctor._executors()}
    assert checks["executor packed, attention triton"] == (
        "executor packed, attention triton",
        None,
        "does not run: no CUDA device",
    )
    assert checks["executor packed, attention flex"].ok is True


@pytest.mark.skipif(torch.cuda.is_available(), reason="they run on a device")
def test_doctor_lists_what_is_experimental() -> None:
    checks = {check.name: check for check in doctor._executors()}
    for name in EXPERIMENTAL:
        _, good, told = checks[f"executor {name}, attention sdpa"]
        assert good is None
        assert told == f"does not run: executor {name!r} needs a CUDA device; the cache is on cpu"
