"""Selection of routing policies: every split, operating point and ablation of an evaluation."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cachemend.calibration.conditions import CandidateSignals
from cachemend.calibration.routing import (
    ABLATIONS,
    DEFAULT_GRID,
    REGENERATE_ALL,
    PolicyGrid,
    RiskMap,
    RoutingScores,
    Selection,
    Thresholds,
    replay,
    route,
    routing_scores,
    select_policy,
)
from cachemend.calibration.routing.ablations import Ablation
from cachemend.calibration.routing.exact import exact_rate
from cachemend.calibration.splits import N_SPLITS, Split, repeated_splits
from cachemend.tasks.bench.sampling import Sample, interleaved
from cachemend.tasks.bench.target import Target

POINTS = ((0.0, 0.16), (0.0, 0.30), (0.025, 0.30))
PARTS = (Ablation(name="full"), *ABLATIONS)
PAIRS, CLUSTERS, WORKERS = 3225, 562, 2
SMALL = 40


class Pool(NamedTuple):
    """Synthetic pairs: similarity, signals, labels, verdicts and clusters, all ``[n]``."""

    similarity: NDArray[np.float64]
    signals: CandidateSignals
    valid: NDArray[np.bool_]
    verdicts: NDArray[np.bool_]
    clusters: NDArray[np.intp]

    def scores(self, split: Split, rows: NDArray[np.intp]) -> RoutingScores:
        """The scores of some rows, by the risk map of the split's development subset."""
        fitted = RiskMap.fit(self.signals.d_match[split.dev], self.valid[split.dev])
        some = {name: column[rows] for name, column in self.signals._asdict().items() if name != "fired"}
        return routing_scores(self.similarity[rows], CandidateSignals(**some), fitted)


def synthetic_pool(n: int = PAIRS, clusters: int = CLUSTERS, seed: int = 0) -> Pool:
    """Draw pairs whose signals tell the label about as well as those of real pairs do."""
    rng = np.random.default_rng(seed)
    valid = rng.random(n) < 0.52
    signals = CandidateSignals(
        d_match=np.where(valid, rng.beta(1, 6, n), rng.beta(3, 5, n)),
        u_match=rng.beta(3, 4, n),
        h_rule=rng.random(n) < np.where(valid, 0.1, 0.6),
        h_ctx=rng.random(n) < np.where(valid, 0.1, 0.4),
        h_own=rng.random(n) < np.where(valid, 0.05, 0.2),
        n_cache=rng.integers(1, 12, n),
        n_request=rng.integers(0, 12, n),
    )
    similarity = np.where(valid, 1 - rng.beta(1, 9, n), 1 - rng.beta(2, 5, n))
    return Pool(similarity, signals, valid, valid ^ (rng.random(n) < 0.03), rng.integers(0, clusters, n))


def bench_choice(
    n: int = PAIRS,
    clusters: int = CLUSTERS,
    splits: int = N_SPLITS,
    grid: PolicyGrid = DEFAULT_GRID,
    repeats: int = 3,
) -> list[Target]:
    """Time all selections of an evaluation on two threads; check one split against a plain loop."""
    pool = synthetic_pool(n, clusters)
    parts = repeated_splits(pool.clusters, n_splits=splits)
    functions: dict[str, Callable[[], object]] = {
        "selection": partial(select_all, pool, parts, grid),
        "floor": partial(_bare_counts, parts, grid),
    }
    times = interleaved(functions, repeats, warmups=1)
    _print(times, pool, parts)
    name = f"seconds for {splits * len(PARTS) * len(POINTS)} selections of {len(grid)} policies, {WORKERS} threads"
    return [
        Target(name, times["selection"].median, at_most=15),
        Target("choices that differ from a plain loop's, one small split", differing(pool, parts[0], grid), at_most=0),
    ]


def select_all(pool: Pool, splits: Sequence[Split], grid: PolicyGrid) -> list[list[Selection]]:
    """Select at every operating point, the full router and each ablation, on every split."""
    with ThreadPoolExecutor(WORKERS) as threads:
        return list(threads.map(partial(_select, pool, grid=grid, most=None), splits))


def _select(pool: Pool, split: Split, *, grid: PolicyGrid, most: int | None) -> list[Selection]:
    rows = split.cal[:most]
    scores = pool.scores(split, rows)
    return [
        select_policy(
            part.scores(scores),
            pool.valid[rows],
            pool.verdicts[rows],
            alpha=part.alpha(alpha),
            budget=budget,
            order=np.arange(len(rows)),
            grid=part.grid(grid),
        )
        for alpha, budget in POINTS
        for part in PARTS
    ]


def differing(pool: Pool, split: Split, grid: PolicyGrid, most: int = SMALL) -> int:
    """Count operating points whose choice is not that of a loop over all policies, each replayed on its own."""
    rows = split.cal[:most]
    scores, valid, verdicts = pool.scores(split, rows), pool.valid[rows], pool.verdicts[rows]
    order = np.arange(len(rows))
    served = {
        budget: [(policy, replay(route(scores, policy), verdicts, order, budget)) for policy in grid]
        for budget in {budget for _, budget in POINTS}
    }
    found = _select(pool, split, grid=grid, most=most)[:: len(PARTS)]
    wrong = 0
    for (alpha, budget), selection in zip(POINTS, found, strict=True):
        best: tuple[tuple[int, int, int], Thresholds] | None = None
        for policy, one in served[budget]:
            right, bad = int((one.accepted & valid).sum()), int((one.accepted & ~valid).sum())
            worth = (right, -bad, -int(one.verified.sum()))
            if bad <= exact_rate("alpha", alpha) * max(right + bad, 1) and (best is None or worth > best[0]):
                best = worth, policy
        wrong += selection.thresholds != (best[1] if best else REGENERATE_ALL)
    return wrong


def _bare_counts(splits: Sequence[Split], grid: PolicyGrid) -> None:
    """Join every direct rule with every verification rule as bits and count them: once per selection, no budget."""
    words = -(-max(len(split.cal) for split in splits) // 64)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 2**63, (len(rules), words), dtype=np.uint64) for rules in (grid.direct, grid.verify))
    for _ in range(len(splits) * len(POINTS) * len(PARTS)):
        for word in range(words):
            np.bitwise_count(a[:, word, None] & b[None, :, word])


def _print(times: dict[str, Sample], pool: Pool, splits: Sequence[Split]) -> None:
    calibration = int(np.median([len(split.cal) for split in splits]))
    print(f"\nSelection, {len(pool.valid)} synthetic pairs, {len(splits)} splits, about {calibration} to calibrate on")
    print(f"  {len(POINTS)} operating points, the full router and {len(ABLATIONS)} ablations, {WORKERS} threads")
    print(f"  selection  {times['selection']}")
    print(f"  floor      {times['floor']}  one thread: all policies' candidates as bits, joined and counted once")
