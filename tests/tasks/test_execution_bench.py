"""The execution benchmark: its supports, its check against FP64, and what its rows say."""

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cachemend.repair_core import LoadedModel, load_model
from cachemend.repair_core.errors import InputError
from cachemend.repair_core.executors import EXECUTORS, triton_kernels
from cachemend.repair_core.executors.packed import PackedExecutor
from cachemend.tasks import gpu_check
from cachemend.tasks.bench.floor import Machine, calibrate
from cachemend.tasks.execution import attention_timing, correctness
from cachemend.tasks.execution.attention_timing import AttentionSetup, checked_samples, time_attention
from cachemend.tasks.execution.backends import Operands, heads_of, prepared
from cachemend.tasks.execution.floors import attention_bound, refresh_bound
from cachemend.tasks.execution.lines import GQA_SDPA, HF_SDPA, attention_lines, refresh_lines
from cachemend.tasks.execution.oracle import Tolerance, absolute_causal
from cachemend.tasks.execution.protocol import ATTENTION, RECOVERY, REFRESH, Protocol
from cachemend.tasks.execution.recovery_timing import RecoverySetup
from cachemend.tasks.execution.refresh_timing import RefreshSetup, time_refresh
from cachemend.tasks.execution.supports import matched_supports, random_deletion
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


def test_floors_count_what_the_work_needs(loaded: LoadedModel) -> None:
    machine, positions = Machine(flops=1.0, bandwidth=1.0), np.array([9, 19])
    bound = refresh_bound(loaded.model, positions, machine, copied=100)
    layer = 64 * 16 * (2 * 4 + 2 * 2) + 3 * 64 * 128
    assert bound is not None
    assert bound.by_flops == 2 * 2 * (2 * layer) + 2 * 4 * (4 * 16) * (10 + 20)
    row = 2 * 2 * 16 * 4  # keys and values of two heads in FP32
    assert bound.by_bytes == 2 * (4 * layer + 20 * row + 2 * 100 * row)
    made = operands(rows=2, length=96, dtype=torch.bfloat16)
    alone = attention_bound(made.query, made.key, positions, machine)
    assert alone.by_flops == 2 * 2 * 4 * 16 * (10 + 20)
    assert alone.by_bytes == 2 * (2 * 20 * 2 * 16 + 2 * 2 * 4 * 16)
    assert min(calibrate(repeats=1, dtype=torch.bfloat16)) > 1e6


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
    code = f"import sys; sys.modules.update(dict.fromkeys({ABSENT!r})); import cachemend.tasks.gpu_check"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


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
    assert heads_of(load_model("random:tiny").model) == (4, 2, 16)


@pytest.mark.usefixtures("no_triton")
def test_a_wrong_backend_fails_the_check(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def shifted(line: str, made: Operands, positions: torch.Tensor) -> Any:
        return prepared(line, made, positions - int(line == "sdpa"))

    monkeypatch.setattr(correctness, "prepared", shifted)
    assert gpu_check.main(["--cpu"]) == 1
    assert "sdpa: case_error: an output is off by" in capsys.readouterr().out


def test_the_gpu_plan_is_the_paper_s() -> None:
    plan = gpu_check.gpu_plan()
    assert (plan.shape, plan.dtype, plan.lengths, plan.rows, plan.intervals) == (
        *("qwen3-8b", torch.bfloat16, (2048, 8192), 64, (1, 4, 16)),
    )
    assert (plan.refresh, plan.attention) == (REFRESH, ATTENTION)
