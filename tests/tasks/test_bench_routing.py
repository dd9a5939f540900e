"""The benchmark of reuse: what it times, that cold is cold, and that a wrong choice is counted."""

from typing import Any

import numpy as np
import pytest

from cachemend.calibration.conditions import candidate_signals, load_lexicon, reading, sentences
from cachemend.calibration.routing import PolicyGrid
from cachemend.calibration.splits import repeated_splits
from cachemend.datasets.pairs_seed import build_seed
from cachemend.tasks.bench import routing_choice
from cachemend.tasks.bench.routing import bench_bootstrap
from cachemend.tasks.bench.routing_choice import bench_choice, differing, synthetic_pool
from cachemend.tasks.bench.routing_conditions import bench_batch, bench_online, forget_texts

FEW = [pair.candidate for pair in build_seed().pairs[:6]]
GRID = PolicyGrid(tau_r=(0.9,), delta_r=(0.1, 0.2), upsilon_r=(0.7,), tau_v=(0.7,), delta_v=(0.5,), upsilon_v=(1.0,))


def test_conditions_are_timed_in_batch_and_online(capsys: pytest.CaptureFixture[str]) -> None:
    (batch,) = bench_batch(FEW, repeats=2)
    (online,) = bench_online(FEW, rounds=2)
    assert (batch.at_least, online.at_most) == (2000, 5)
    assert batch.value > 0
    printed = capsys.readouterr().out
    assert "Conditions, 6 pairs" in printed
    assert printed.count("n=2") == 3
    assert "p50" in printed
    assert "p99" in printed


def test_forgetting_leaves_no_text_and_keeps_the_lexicon() -> None:
    lexicon = load_lexicon()
    candidate_signals(FEW)
    assert reading._remembered.cache_info().currsize > 0
    forget_texts()
    assert [memo.cache_info().currsize for memo in (reading._remembered, sentences._remembered)] == [0, 0]
    assert load_lexicon() is lexicon


def test_selection_is_timed_and_checked(capsys: pytest.CaptureFixture[str]) -> None:
    seconds, differences = bench_choice(n=240, clusters=60, splits=2, grid=GRID, repeats=1)
    assert "36 selections of" in seconds.name  # 2 splits, 3 operating points, 6 routers
    assert (seconds.at_most, differences.at_most, differences.value) == (15, 0, 0)
    assert "floor" in capsys.readouterr().out


def test_a_wrong_choice_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = synthetic_pool(240, 60)
    split = repeated_splits(pool.clusters, n_splits=1)[0]
    assert differing(pool, split, GRID) == 0
    choose = routing_choice.select_policy

    def careless(scores: Any, valid: Any, verdicts: Any, **settings: Any) -> Any:
        return choose(scores, valid, verdicts, **settings | {"budget": 0.0})

    monkeypatch.setattr(routing_choice, "select_policy", careless)
    assert differing(pool, split, GRID) > 0


def test_the_synthetic_pool_is_always_the_same_and_can_be_told_apart() -> None:
    pool, again = synthetic_pool(500, 50), synthetic_pool(500, 50)
    assert pool.similarity.tolist() == again.similarity.tolist()
    assert pool.signals.d_match[pool.valid].mean() < pool.signals.d_match[~pool.valid].mean()
    assert np.abs(pool.similarity).max() <= 1
    assert pool.valid.any()
    assert not pool.valid.all()


def test_the_bootstrap_is_timed(capsys: pytest.CaptureFixture[str]) -> None:
    (target,) = bench_bootstrap(exposures=200, clusters=20, replicates=50, repeats=1)
    assert (target.at_most, target.name) == (10, "seconds for 50 draws of 20 clusters")
    assert "floor" in capsys.readouterr().out
