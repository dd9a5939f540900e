"""Interleaved wall-clock samples of several functions."""

import random
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any, NamedTuple, TypeVar

Key = TypeVar("Key")


class Sample(NamedTuple):
    """Seconds of one function: median and extremes over `n` repeats."""

    median: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        return f"{self.median * 1e3:9.1f} ms  [{self.low * 1e3:.1f}, {self.high * 1e3:.1f}]  n={self.n}"


def interleaved(
    functions: Mapping[Key, Callable[[], object]],
    repeats: int,
    warmups: int = 2,
    seed: int = 0,
    per_round: Mapping[Key, int] | None = None,
    inspect: Callable[[Key, Any, float | None], None] | None = None,
) -> dict[Key, Sample]:
    """Time every function in each of `repeats` rounds, in an order drawn anew, after `warmups` untimed rounds.

    A function runs once a round, or as often as `per_round` says: short ones beside one that takes long.
    `inspect` gets every name, its result and its seconds (None of a warm-up) after the clock has stopped.
    """
    often, rng = per_round or {}, random.Random(seed)
    order = [name for name in functions for _ in range(often.get(name, 1))]
    times: dict[Key, list[float]] = {name: [] for name in functions}
    for round_index in range(warmups + repeats):
        rng.shuffle(order)
        for name in order:
            start = time.perf_counter()
            result = functions[name]()
            elapsed = time.perf_counter() - start
            if inspect is not None:
                inspect(name, result, elapsed if round_index >= warmups else None)
            # The next function must not run beside the memory of this one's result.
            del result
            if round_index >= warmups:
                times[name].append(elapsed)
    return {name: Sample(median(t), min(t), max(t), len(t)) for name, t in times.items()}
