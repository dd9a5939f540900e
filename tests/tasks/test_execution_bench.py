"""The execution benchmark: its supports, its check against FP64, and what its rows say."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForCausalLM

from cachemend.repair_core import LoadedModel, load_model
from cachemend.repair_core.architecture import Window
from cachemend.repair_core.errors import InputError
from cachemend.repair_core.executors import EXECUTORS, EXPERIMENTAL, triton_kernels
from cachemend.repair_core.executors.packed import PackedExecutor
from cachemend.repair_core.random_models import free_bytes, shape_config
from cachemend.tasks import gpu_check
from cachemend.tasks.bench.floor import Machine, calibrate, flops_of_a_refresh, products_of_a_refresh
from cachemend.tasks.execution import attention_timing, correctness
from cachemend.tasks.execution.attention_timing import AttentionSetup, checked_samples, time_attention
from cachemend.tasks.execution.backends import Operands, heads_of, planned, prepared
from cachemend.tasks.execution.correctness import Case, check_backends
from cachemend.tasks.execution.floors import attention_bound, refresh_bound
from cachemend.tasks.execution.lines import GQA_SDPA, HF_SDPA, attention_lines, refresh_lines
from cachemend.tasks.execution.oracle import Tolerance, absolute_causal
from cachemend.tasks.execution.protocol import ATTENTION, RECOVERY, REFRESH, Protocol
from cachemend.tasks.execution.recovery_timing import RecoverySetup
from cachemend.tasks.execution.refresh_timing import RefreshSetup, time_refresh
from cachemend.tasks.execution.replays import Context, check_replays
from cachemend.tasks.execution.supports import matched_supports, random_deletion
from cachemend.tasks.execution.targets import judge
from cachemend.tasks.execution.text_table import tables
from cachemend.tasks.execution.trial import LIMITS, Checked, Trial
from cachemend.tasks.execution.trying import OK
from cachemend.tasks.work import Place, get_work

from oracles.attention import indexed_attention

CPU = torch.device("cpu")
FEW = Protocol(warmups=1, repeats=2)


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    return load_model("random:tiny", dtype="float32")


@pytest.fixture
def no_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton as it is where nobody interprets it and no device runs it."""
    monkeypatch.setattr(triton_kernels, "INTERPRETED", False)


def operands(rows: int = 8, length: int = 96, dtype: torch.dtype = torch.float32) -> Operands:
    return Operands.random((4, 2, 16), rows, length, dtype, CPU, 3)


@pytest.mark.parametrize(("length", "pairs"), [(2048, 65_568), (8192, 262_176)])
def test_every_number_of_intervals_has_the_paper_s_causal_pairs(length: int, pairs: int) -> None:
    for n, support in matched_supports(length, 64, (1, 4, 16)).items():
        assert sum(int(u) + 1 for u in support) == pairs
        assert len(set(support.tolist())) == 64
        assert sum(int(b - a) > 1 for a, b in pairwise(support)) == n - 1
        assert (support + support[::-1] == length - 1).all(), "symmetric about the middle"


@pytest.mark.parametrize(
    ("length", "count", "n"), [(2048, 64, 3), (2048, 64, 64), (60, 64, 1), (2047, 64, 4), (16, 16, 1)]
)
def test_supports_that_do_not_fit_are_named(length: int, count: int, n: int) -> None:
    with pytest.raises(InputError, match=f"{count} positions in {n} intervals do not fit a context of {length} tokens"):
        matched_supports(length, count, (n,))


def test_eight_tokens_before_every_selected_position_are_deleted() -> None:
    deletion = random_deletion(2048, 1000, 0)
    assert (len(deletion.original_ids), len(deletion.edited_ids), deletion.deleted_length) == (2056, 2048, 8)
    assert all(deletion.prefix_length <= support[0] for support in matched_supports(2048, 64, (1, 4, 16)).values())


def test_the_protocols_are_the_paper_s() -> None:
    assert [(p.warmups, p.repeats) for p in (REFRESH, ATTENTION, RECOVERY)] == [(10, 20), (10, 30), (2, 5)]
    with pytest.raises(InputError, match="0 repeats"):
        Protocol(warmups=1, repeats=0)


def test_the_fp64_truth_is_that_of_an_independent_loop() -> None:
    made, positions = operands(rows=3, length=24), [4, 5, 20]
    truth = absolute_causal(*made, torch.tensor(positions))
    query, key, value = (t[0].numpy() for t in made)
    wanted = indexed_attention(query, key, value, positions, 0.25)
    assert np.abs(truth[0].permute(1, 0, 2).numpy() - wanted).max() < 1e-12


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("line", [HF_SDPA, GQA_SDPA, "sdpa", "flex"])
def test_lines_that_run_anywhere_keep_to_the_tolerance(line: str, dtype: torch.dtype) -> None:
    made, positions = operands(dtype=dtype), torch.tensor([5, 6, 30, 31, 60, 61, 90, 91])
    output = prepared(line, made, positions)()
    assert output.is_contiguous()
    assert Tolerance.of(dtype).used(output, absolute_causal(*made, positions)) < 1


def test_one_wrong_number_in_one_round_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = 0

    def sometimes(line: str, made: Operands, positions: torch.Tensor) -> Any:
        right = prepared(line, made, positions)

        def attend() -> torch.Tensor:
            nonlocal rounds
            rounds += line == GQA_SDPA
            output = right()
            if line == GQA_SDPA and rounds == 3:
                output[0, 2, 1, 7] += 3e-3
            return output

        return attend

    monkeypatch.setattr(attention_timing, "prepared", sometimes)
    setup = AttentionSetup(intervals=(1,), lines=(GQA_SDPA, "sdpa"), protocol=FEW)
    wrong, right = time_attention(operands(), setup)
    assert rounds == 1 + 1 + 2, "the first call, the warm-up, the rounds"
    assert wrong["outcome"] == "case_error"
    assert "times the tolerance against FP64" in wrong["error"]
    assert wrong["tolerance_used"] > 10
    assert (right["outcome"], right["error"]) == ("ok", None)


def test_an_output_that_is_no_number_is_wrong() -> None:
    truth = torch.zeros(1, 2, 1, 2, dtype=torch.float64)
    output = torch.zeros(1, 2, 1, 2)
    output[0, 0, 0, 0] = float("nan")
    found = checked_samples({(1, "x"): lambda: output}, FEW, {(1, "x"): truth}, Tolerance.of(torch.float32))
    assert found.used == {(1, "x"): float("inf")}


@pytest.mark.usefixtures("no_triton")
@pytest.mark.skipif(torch.cuda.is_available(), reason="Triton runs on a GPU")
def test_refresh_rows_hold_times_floors_counts_and_checks(loaded: LoadedModel) -> None:
    setup = RefreshSetup(
        intervals=(1, 4), lines=refresh_lines(["interval", "packed"], ["sdpa", "triton"]), protocol=FEW
    )
    rows = time_refresh(loaded.model, 256, 16, setup)
    told = [(row["n_intervals"], row["executor"], row["attention"]) for row in rows]
    ways = [("interval", "model"), ("packed", "sdpa"), ("packed", "triton")]
    assert told == [(n, *way) for n in (1, 4) for way in ways]
    for row in rows:
        assert (row["causal_pairs"], row["token_layers"]) == (16 * 257 // 2, 16 * 2)
        assert row["pair_share_bound"] == 32 / 252
        assert (row["n_warmup"], row["n_timed"]) == (1, 2)
        if row["attention"] == "triton":
            assert row["outcome"] == "refused"
            assert "triton" in row["error"]
            assert row["seconds_median"] is None
            continue
        assert row["outcome"] == "ok"
        assert row["how"] == ("runs on cpu" if row["executor"] == "packed" else None)
        assert 0 < row["seconds_low"] <= row["seconds_median"] <= row["seconds_high"]
        assert row["input_unchanged"] is row["unselected_bit_identical"] is True
        assert row["relative_l2"] < 1e-5
        assert max(row["floor_flops_seconds"], row["floor_bytes_seconds"]) > 0


def test_a_refresh_that_touches_other_rows_is_no_result(loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    class Careless(PackedExecutor):
        def run(self, *arguments: Any) -> Any:
            rows = super().run(*arguments)
            rows[1].values[0, 0, 3, 0] += 1
            return rows

    monkeypatch.setitem(EXECUTORS, "packed", Careless)
    setup = RefreshSetup(intervals=(4,), lines=refresh_lines(["packed", "direct"], ["sdpa"]), protocol=FEW)
    careless, direct = time_refresh(loaded.model, 256, 16, setup)
    assert careless["outcome"] == "case_error"
    assert careless["unselected_bit_identical"] is False
    assert direct["outcome"] == "ok"


def test_a_reference_that_fails_is_the_result_of_every_line(
    loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_memory(*_: Any) -> Any:
        raise MemoryError("8 GiB wanted")

    monkeypatch.setattr(Trial, "_reference", no_memory)
    setup = RefreshSetup(intervals=(4,), lines=refresh_lines(["packed", "direct"], ["sdpa"]), protocol=FEW)
    rows = time_refresh(loaded.model, 256, 16, setup)
    assert len(rows) == 2
    assert all(row["outcome"] != "ok" and "8 GiB wanted" in row["error"] for row in rows)


def test_floors_count_what_the_work_needs(loaded: LoadedModel) -> None:
    machine, positions = Machine(flops=1.0, bandwidth=1.0), np.array([9, 19])
    bound = refresh_bound(loaded.model, positions, machine, copied=100)
    layer = 64 * 16 * (2 * 4 + 2 * 2) + 3 * 64 * 128
    last = 2 * 64 * 2 * 16  # of the second and last layer keys and values only, and nothing attends
    assert bound is not None
    assert bound.by_flops == 2 * 2 * (layer + last) + 4 * (4 * 16) * (10 + 20)
    row = 2 * 2 * 16 * 4  # keys and values of two heads in FP32
    assert bound.by_bytes == 4 * (layer + last) + 20 * row
    assert bound.by_copy == 2 * 2 * 100 * row
    assert bound.seconds == bound.by_bytes + bound.by_copy
    made = operands(rows=2, length=96, dtype=torch.bfloat16)
    alone = attention_bound(made.query, made.key, positions, machine)
    assert alone.by_flops == 2 * 2 * 4 * 16 * (10 + 20)
    assert alone.by_bytes == 2 * (2 * 20 * 2 * 16 + 2 * 2 * 4 * 16)
    assert min(calibrate(repeats=1, dtype=torch.bfloat16)) > 1e6


def test_the_paper_s_refresh_moves_at_least_14_66_gb() -> None:
    """Qwen3-8B in BF16 at 8K in 16 intervals, by hand; 4.38 ms at the 3.35 TB/s of an H100."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(shape_config("qwen3-8b"), dtype=torch.bfloat16)
    support = matched_supports(8192, 64, (16,))[16]
    bound = refresh_bound(model, support, Machine(flops=1e15, bandwidth=3.35e12), copied=8192)
    weights = 35 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 12_288) + 2 * 4096 * 1024
    visible = 35 * 2 * 1024 * (7936 + 2)
    assert bound is not None
    assert round(2 * (weights + visible) / 1e9, 2) == 14.66
    assert bound.by_bytes == pytest.approx(2 * (weights + visible) / 3.35e12)
    assert round(1e3 * bound.by_bytes, 2) == 4.38
    assert bound.by_copy == pytest.approx(2 * 36 * 2 * 1024 * 2 * 8192 / 3.35e12)


def test_the_products_are_those_that_the_flops_count(loaded: LoadedModel) -> None:
    positions = torch.tensor([31])  # one row and one group: each product has exactly the visible keys
    with FlopCounterMode(display=False) as counter:
        products_of_a_refresh(loaded.model, positions)()
    assert counter.get_total_flops() == flops_of_a_refresh(loaded.model, positions)


@pytest.mark.parametrize("value", [0.0, float("nan")])
def test_fresh_rows_that_are_not_written_right_are_no_result(
    loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch, value: float
) -> None:
    attention = pytest.importorskip("cachemend.repair_core.executors.triton_attention")

    def write_both(self: Any, keys: torch.Tensor, values: torch.Tensor, *fresh: torch.Tensor) -> None:
        for target, rows in zip((keys, values), fresh, strict=True):
            self.write(target, torch.full_like(rows, value))

    monkeypatch.setattr(attention.FusedTritonPlan, "write_both", write_both)
    setup = RefreshSetup(intervals=(1,), lines=refresh_lines(["packed"], ["triton-fused", "sdpa"]), protocol=FEW)
    fused, sdpa = time_refresh(loaded.model, 64, 4, setup)
    assert fused["outcome"] == "case_error"
    assert "differ from the interval-wise executor's by" in fused["error"]
    assert "more than 0.0001" in fused["error"]
    assert fused["relative_l2"] is None or fused["relative_l2"] > 0.5, "a table holds no NaN"
    assert sdpa["outcome"] == "ok"
    (checked,) = check_backends(["triton-fused"], [Case(heads=(4, 2, 16), rows=4, length=64)], [torch.float32], CPU)
    assert (checked["outcome"], checked["error"]) == (
        "case_error",
        "keys and values are not written as index_copy_ writes them",
    )


@pytest.mark.parametrize(
    ("dtype", "difference", "outcome"),
    [
        (torch.float32, 9e-5, "ok"),
        (torch.float32, 2e-4, "case_error"),
        (torch.bfloat16, 0.019, "ok"),
        (torch.float16, 0.021, "case_error"),
        (torch.float32, float("nan"), "case_error"),
    ],
)
def test_how_far_fresh_rows_may_be_off(dtype: torch.dtype, difference: float, outcome: str) -> None:
    found = Checked(attempt=OK, difference=difference, limit=LIMITS[dtype], kept_bits=True)
    assert found.columns(unchanged=True)["outcome"] == outcome


def test_captured_executors_are_refused_in_words_without_a_gpu(loaded: LoadedModel) -> None:
    if torch.cuda.is_available():
        pytest.skip("they run here")
    lines = refresh_lines(tuple(EXPERIMENTAL), ["sdpa", "flex", "triton-split"])
    assert [tuple(line) for line in lines] == [
        (executor, attention) for executor in EXPERIMENTAL for attention in ("sdpa", "triton-split")
    ]
    assert [tuple(line) for line in refresh_lines(["packed-graph"], ["flex", "triton"])] == [("packed-graph", "flex")]
    rows = time_refresh(loaded.model, 64, 4, RefreshSetup(intervals=(1,), lines=lines[:1], protocol=FEW))
    rows += check_replays(loaded.model, lines[:1], (Context(64, 4, (1,)), Context(96, 4, (1,))))
    assert [row["outcome"] for row in rows] == ["refused"] * (1 + 2 * 2)
    for row in rows:
        assert "executor 'packed-graph' needs a CUDA device; the cache is on cpu" in row["error"]
        assert (row["executor"], row["relative_l2"]) == ("packed-graph", None)


def test_a_replay_of_another_s_rows_is_seen(loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stale(PackedExecutor):
        """Right at first, then what it wrote of the context before."""

        seen: ClassVar[list[Any]] = []

        def run(self, model: Any, rows: Any, ids: torch.Tensor, positions: torch.Tensor, in_place: bool) -> Any:
            before = self.seen[-1] if len(self.seen) > 1 else ids
            self.seen.append(ids)
            return super().run(model, rows, before if before.shape == ids.shape else ids.flip(1), positions, in_place)

    monkeypatch.setitem(EXPERIMENTAL, "packed-graph", Stale)
    lines = refresh_lines(["packed-graph"], ["sdpa"])
    rows = check_replays(loaded.model, lines, (Context(64, 4, (1,)), Context(96, 4, (1,))))
    assert [(row["length"], row["round"]) for row in rows] == [(64, 0), (96, 0), (64, 1), (96, 1)]
    assert [row["outcome"] for row in rows] == ["ok", "ok", "case_error", "case_error"]


GPU_ROW = {"length": 8192, "outcome": "ok", "error": None, "floor_flops_seconds": 1e-4, "floor_bytes_seconds": 4.38e-3}


def gpu_refresh(executor: str, n: int, ms: float, attention: str = "sdpa", **more: Any) -> dict[str, Any]:
    told = {"executor": executor, "attention": attention, "n_intervals": n, "seconds_median": ms / 1e3}
    return {**GPU_ROW, **told, "floor_copy_seconds": 0.72e-3, **more}


def gpu_attention(line: str, n: int, us: float) -> dict[str, Any]:
    return {**GPU_ROW, "executor": "none", "attention": line, "n_intervals": n, "seconds_median": us / 1e6}


def test_targets_are_judged_by_the_measured_times() -> None:
    refresh = [
        *(gpu_refresh("packed", 1, 18.0), gpu_refresh("packed", 16, 19.0)),
        *(gpu_refresh("packed", 1, 17.0, "triton"), gpu_refresh("packed", 16, 21.0, "triton")),
        gpu_refresh("packed", 16, 1.0, "triton-fused", outcome="case_error"),
        gpu_refresh("packed", 16, 2.0, length=2048),
        *(gpu_refresh("packed-graph", 1, 11.0), gpu_refresh("packed-graph", 16, 11.7)),
        *(gpu_refresh("packed-graph-fused", 1, 8.0), gpu_refresh("packed-graph-fused", 16, 9.0)),
    ]
    attention = [
        *(gpu_attention("sdpa-gqa", 1, 270.0), gpu_attention("sdpa-gqa", 16, 280.0)),
        *(gpu_attention("triton", 1, 230.0), gpu_attention("triton", 16, 300.0)),
        *(gpu_attention("triton-split", 1, 250.0), gpu_attention("triton-split", 16, 266.0)),
    ]
    told = judge(refresh, attention)
    assert [judged.met for judged in told] == [True, True, False, True, True, False, True]
    assert told[0].line == "met: 19.00 eager refresh at N=8192, ms, R=16, sdpa (at most 20)"
    assert told[1].line.startswith("met: 2.67 CUDA graph at N=8192 over the floor of weights and visible K/V without")
    assert told[2].line.startswith("missed: 2.05 fused")  # 9.0 over 4.38
    assert told[5].line == "missed: 1.12 packed-graph-fused at N=8192, slowest over fastest R, sdpa (at most 1.1)"
    assert told[6].line == "met: 0.95 custom attention over SDPA + GQA at N=8192, worst R, triton-split (at most 1)"
    assert {judged.met for judged in judge([], [])} == {None}


def test_a_refused_backend_fails_the_check_on_a_gpu_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = {"attention": "triton", "dtype": "float32", "outcome": "refused", "error": "old", "tolerance_used": None}
    monkeypatch.setattr(gpu_check, "check_backends", lambda *_: [refused])
    monkeypatch.setattr(gpu_check, "build_random", lambda *_: None)
    monkeypatch.setattr(gpu_check, "check_replays", lambda *_: [])
    monkeypatch.setattr(gpu_check, "device_name", str)
    plan = replace(gpu_check.cpu_plan(), lengths=())
    assert gpu_check.run(plan)["wrong"] == []
    found = gpu_check.run(replace(plan, device=torch.device("cuda")))
    assert found["wrong"] == [refused]
    assert "triton: refused: old" in tables(found)
    assert "targets; one that is missed does not fail this check" in tables(found)
    monkeypatch.setattr(gpu_check, "cpu_plan", lambda: replace(plan, device=torch.device("cuda")))
    assert gpu_check.main(["--cpu"]) == 1
    capsys.readouterr()


def test_cases_are_no_multiples_of_tiles_and_views_of_a_buffer() -> None:
    rows, lengths = ({getattr(case, name) for case in gpu_check.ODD} for name in ("rows", "length"))
    assert (rows, lengths) == ({1, 15, 33}, {65, 127})
    assert {case.heads[2] for case in gpu_check.ODD} == {64, 96}
    assert {case.heads[0] // case.heads[1] for case in gpu_check.ODD} == {3}
    assert {(case.batch, case.window is None, case.sliced) for case in gpu_check.ODD} == {
        *((1, True, True), (2, False, True), (2, True, True), (1, False, False)),
    }
    assert set(gpu_check.ODD) <= set(gpu_check.gpu_plan().cases)
    for case in gpu_check.ODD:
        made, where = case.operands(torch.float32, CPU, 0), case.positions()
        assert where.shape == (case.batch, case.rows)
        assert (int(where[0, -1]), int(where.min()) >= 0) == (case.length - 1, True)
        assert (where[:, 1:] > where[:, :-1]).all()
        assert made.key.is_contiguous() is not case.sliced
        wanted = [
            indexed_attention(
                *(t[i].numpy() for t in made),
                where[i].tolist(),
                case.heads[2] ** -0.5,
                **({} if case.window is None else {"window": case.window}),
            )
            for i in range(case.batch)
        ]
        window = None if case.window is None else Window(case.window)
        truth = absolute_causal(*made, where, window).numpy()
        assert np.abs(truth - np.stack(wanted).swapaxes(1, 2)).max() < 1e-12


def test_odd_cases_hold_for_every_backend() -> None:
    pytest.importorskip("triton", reason="triton is installed on Linux only")
    backends = ("sdpa", "flex", "triton-split", "triton-fused")
    rows = check_backends(backends, gpu_check.ODD, [torch.float32], CPU)
    rows += check_backends(backends[:2], gpu_check.ODD, [torch.bfloat16], CPU)
    assert [(row["attention"], row["error"]) for row in rows if row["outcome"] != "ok"] == []
    assert len(rows) == len(gpu_check.ODD) * (4 + 2)


def test_recovery_times_every_way_on_one_text(loaded: LoadedModel) -> None:
    work = get_work("execution-recovery")
    cohort = work.build(loaded.tokenizer, (300,))
    lines = refresh_lines(["interval", "packed"], ["sdpa"])
    setup = RecoverySetup(budgets=(5.0,), refreshes=lines, protocol=FEW)
    (case,) = cohort.cases
    rows = [row for _, row in work.run(Place(loaded, None, None), case, [setup])]  # type: ignore[arg-type]
    assert [row["method"] for row in rows] == ["re-prefill", "replay", "shift", "repair", "repair"]
    assert [{name: row[name] for name in cell} for row, cell in zip(rows, work.cells(case, setup), strict=True)] == (
        work.cells(case, setup)
    )
    by_name = {(row["method"], row["executor"]): row for row in rows}
    chosen = -(-5 * case.deletion.suffix_length // 100)
    assert by_name["repair", "packed"]["rows"] == by_name["repair", "interval"]["rows"] == chosen
    assert by_name["replay", "none"]["rows"] == case.deletion.suffix_length
    assert by_name["re-prefill", "none"]["rows"] == case.n_tokens
    assert by_name["shift", "none"]["refresh_mean"] is None
    for row in rows:
        assert row["outcome"] == "ok"
        assert row["seconds_low"] <= row["seconds_mean"] <= row["seconds_high"]
        assert row["method"] == "shift" or 0 < row["refresh_mean"] <= row["seconds_mean"]


def test_the_check_says_that_there_is_no_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is one")
    assert gpu_check.main([]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("no GPU here")
    assert told.err.count("\n") == 1


ABSENT = ("ray", "prefect", "duckdb", "pydantic", "psutil", "pyarrow", "scipy", "sklearn", "gguf", "accelerate")


def test_the_check_needs_torch_and_transformers_alone() -> None:
    """The whole check on a CPU, where nothing else can be imported."""
    blocked = f"import sys; sys.modules.update(dict.fromkeys({ABSENT!r}))"
    code = f"{blocked}; from cachemend.tasks import gpu_check; sys.exit(gpu_check.main(['--cpu']))"
    own = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=own)
    assert ended.returncode == 0, ended.stderr
    assert "wrong: 0;" in ended.stdout


def test_memory_is_read_without_psutil(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psutil", None)
    told = dict(line.split(":") for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines())
    assert 0 < free_bytes(CPU) < 1024 * int(told["MemTotal"].split()[0])


@pytest.mark.usefixtures("no_triton")
def test_the_check_writes_what_it_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "check.json"
    assert gpu_check.main(["--cpu", "--output", str(file)]) == 0
    printed, found = capsys.readouterr().out, json.loads(file.read_text())
    assert printed.startswith(file.read_text())
    assert "share of the FP64 tolerance used" in printed
    assert "times say nothing" in found["note"]
    assert found["wrong"] == []
    assert {row["attention"] for row in found["attention"]["lines"]} == set(attention_lines(gpu_check.ATTENTIONS))
    assert {row["attention"] for row in found["correctness"] if row["outcome"] == "ok"} == {"sdpa", "flex"}
    graphs = [row for row in found["refresh"]["lines"] if row["executor"] in EXPERIMENTAL]
    assert {row["outcome"] for row in (*graphs, *found["replays"])} == {"refused"}
    assert "packed-graph-fused sdpa" in printed
    assert found["targets"] == [], "a tiny shape on a CPU has none"
    assert heads_of(load_model("random:tiny").model) == (4, 2, 16)


@pytest.mark.usefixtures("no_triton")
def test_a_wrong_backend_fails_the_check(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def shifted(backend: str, made: Operands, positions: torch.Tensor, window: Window | None) -> Any:
        return planned(backend, made, positions - int(backend == "sdpa"), window)

    monkeypatch.setattr(correctness, "planned", shifted)
    assert gpu_check.main(["--cpu"]) == 1
    assert "sdpa: case_error: an output is off by" in capsys.readouterr().out


def test_the_gpu_plan_is_the_paper_s() -> None:
    plan = gpu_check.gpu_plan()
    assert (plan.shape, plan.dtype, plan.lengths, plan.rows, plan.intervals) == (
        *("qwen3-8b", torch.bfloat16, (2048, 8192), 64, (1, 4, 16)),
    )
    assert (plan.refresh, plan.attention) == (REFRESH, ATTENTION)
