"""The execution benchmark's flow end to end on a tiny random shape, and its settings."""

from collections import Counter
from pathlib import Path

import pytest

from cachemend.flows.execution_config import ExecutionBenchConfig
from cachemend.flows.execution_summary import _refused_name
from cachemend.flows.overrides import build_config
from cachemend.repair_core.errors import InputError
from cachemend.repair_core.executors import EXPERIMENTAL
from cachemend.repair_core.executors.backends import ATTENTIONS
from cachemend.warehouse import store

from support.parts_count import read_rows

FEW = (
    *("shape=tiny", "dtype=float32", "lengths=256", "rows=16", "intervals=1,4", "attentions=sdpa,flex"),
    *("executors=packed,interval,packed-graph", "warmups=0", "repeats=2", "budgets=5"),
    *("recovery_lengths=300", "recovery_repeats=1", "recovery_warmups=0"),
)


@pytest.mark.timeout(300)
def test_every_study_is_timed_once_and_says_how(command, prefect_server, cluster, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    results = tmp_path / "results"
    settings = [part for text in FEW for part in ("--set", text)]
    ended = command("run", "execution-bench", *settings, "--results", results, "--address", cluster.address)
    assert ended.code == 0, ended.err
    assert "packed sdpa" in ended.out
    refresh, attention, recovery = (
        read_rows(results, f"{s}_timing_rows") for s in ("refresh", "attention", "recovery")
    )
    ways = Counter((row["executor"], row["attention"], row["n_intervals"], row["outcome"]) for row in refresh)
    assert ways == {
        (executor, how, n, outcome): 1
        for n in (1, 4)
        for executor, how, outcome in (
            *(("packed", "sdpa", "ok"), ("packed", "flex", "ok"), ("interval", "model", "ok")),
            ("packed-graph", "sdpa", "refused"),
        )
    }
    assert "packed-graph sdpa not timed: Refused: executor 'packed-graph' needs a CUDA device" in ended.out
    assert {row["attention"] for row in attention} == {"hf-sdpa", "sdpa-gqa", "sdpa", "flex"}
    assert Counter(row["method"] for row in recovery) == {"re-prefill": 1, "replay": 1, "shift": 1, "repair": 2}
    for row in (*refresh, *attention, *recovery):
        assert (row["model"], row["weights"], row["dtype"]) == ("random:tiny", "random", "float32")
        assert row["n_warmup"] == 0
        assert any(stage.startswith("not in it") for stage in row["timed_stages"])
    (run, *_) = store.query(results, "FROM runs WHERE status = 'done' ORDER BY run_id").to_pylist()
    assert (run["n_failed"], '"repeats": 2' in run["config"]) == (0, True)
    assert "Execution benchmark" in (results / "report.html").read_text(encoding="utf-8")
    again = command("run", "execution-bench", *settings, "--results", results, "--address", cluster.address)
    assert again.code == 0
    assert "nothing to do" in again.out


def test_defaults_are_the_paper_s_protocol() -> None:
    config = ExecutionBenchConfig(shape="qwen3-8b")
    assert config.model == "random:qwen3-8b"
    assert (config.timed_lengths(), config.rows, config.intervals) == ((2048, 8192), 64, (1, 4, 16))
    arms = config.arms()
    assert [(arm.protocol.warmups, arm.protocol.repeats) for arm in arms.values()] == [(10, 20), (10, 30), (2, 5)]
    assert len(arms["refresh"].cells()) == 3 * (3 + len(ATTENTIONS))
    assert len(arms["attention"].cells()) == 3 * (2 + len(ATTENTIONS))
    assert len(arms["recovery"].cells()) == 3 + 2 * 2


def test_captured_executors_are_compared_where_they_are_named_only() -> None:
    assert not EXPERIMENTAL.keys() & set(ExecutionBenchConfig(shape="tiny").executors)
    config = build_config(ExecutionBenchConfig, assignments=["shape=tiny", "executors=packed-graph,packed-graph-fused"])
    cells = config.arms()["refresh"].cells()
    assert {(cell["executor"], cell["attention"]) for cell in cells} == {
        (executor, attention) for executor in EXPERIMENTAL for attention in ("sdpa", "triton-split")
    }


def test_a_captured_executor_is_announced_by_its_own_name() -> None:
    """Its backend may well run here."""
    refused = [{"executor": executor, "attention": "sdpa"} for executor in ("packed", "none", "packed-graph")]
    assert [_refused_name(row) for row in refused] == ["sdpa", "sdpa", "packed-graph sdpa"]


def test_default_lengths_are_those_the_model_holds() -> None:
    config = ExecutionBenchConfig()
    config.check_model()
    assert (config.limit(), config.timed_lengths()) == (8192, (2048,))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("shape=qwen3-8", r"shape 'qwen3-8' is unknown; did you mean 'qwen3-8b'\? known: "),
        ("attentions=trito", "attentions 'trito' is unknown; did you mean 'triton'"),
        ("executors=bottom-right", "executors 'bottom-right' is unknown; .*direct, interval"),
        ("executors=packed-grap", "executors 'packed-grap' is unknown; did you mean 'packed-graph'"),
        ("executor=direct", "executor 'direct' is one of several that are compared; give executors="),
        ("intervals=1,3", "64 positions in 3 intervals do not fit"),
        ("lengths=2047", "64 positions in 1 intervals do not fit a context of 2047 tokens"),
        ("workers=2", "workers 2 would share the machine"),
        ("repeats=0", "'repeats': .*, not 0"),
        ("lengths=8192", "needs 8200 tokens and model 'smollm2-135m' holds 8192"),
    ],
)
def test_bad_settings_are_named(settings: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        build_config(ExecutionBenchConfig, assignments=[settings]).check_model()


def test_a_shape_and_another_model_exclude_each_other() -> None:
    with pytest.raises(InputError, match="shape 'tiny' and model 'x' exclude each other"):
        build_config(ExecutionBenchConfig, assignments=["shape=tiny"], options={"model": "x"})
    named = ExecutionBenchConfig(shape="tiny")
    assert ExecutionBenchConfig.model_validate(named.model_dump()) == named
