"""Conditions, matching and guards: many pairs at once, and one request against a prepared entry."""

import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cachemend.calibration.candidate import Candidate
from cachemend.calibration.conditions import PreparedEntry, candidate_signals, prepare_entry, score_request
from cachemend.calibration.conditions.hashing import TOKEN_PATTERN
from cachemend.tasks.bench.sampling import interleaved
from cachemend.tasks.bench.target import Target

TIMED = """\
cold: memos of texts, sentences, fields and records cleared first (within the time); warm: all of them filled
floor: all words of the same texts, found once by one pattern"""
_PACKAGE = "cachemend.calibration.conditions."


def forget_texts() -> None:
    """Clear every memo of what was read; the compiled lexicon stays."""
    for memo in list(_memos()):
        memo.cache_clear()  # type: ignore[attr-defined]


def _memos() -> Iterator[object]:
    for name, module in list(sys.modules.items()):
        if name.startswith(_PACKAGE) and not name.endswith(".lexicon"):
            yield from (found for found in vars(module).values() if hasattr(found, "cache_clear"))


def bench_batch(candidates: Sequence[Candidate], repeats: int = 7) -> list[Target]:
    """Time the signals of all candidates at once on one thread, and return the target in pairs per second."""
    words = re.compile(TOKEN_PATTERN)
    texts = [text for candidate in candidates for text in astuple(candidate)]
    spent: dict[str, list[float]] = {"cold": [], "warm": [], "floor": []}

    def cold() -> None:
        forget_texts()
        candidate_signals(candidates)

    functions: dict[str, Callable[[], object]] = {
        "cold": cold,
        "warm": partial(candidate_signals, candidates),
        "floor": lambda: [words.findall(text.lower()) for text in texts],
    }
    timed = {name: _metered(function, spent[name]) for name, function in functions.items()}
    # A warm pass must follow another pass, whichever came last: both leave the memos filled.
    times = interleaved(timed, repeats)
    n, size = len(candidates), sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
    print(f"\nConditions, {n} pairs, {size / 1000:.0f} kB, one thread\n{TIMED}")
    for name, sample in times.items():
        processor = float(np.median(spent[name][-repeats:]))
        print(f"  {name:<6} {sample}  {n / sample.median:9,.0f} pairs/s  processor time {processor * 1e3:.1f} ms")
    print(f"  cold over floor {times['cold'].median / times['floor'].median:.1f}")
    return [Target("pairs per second, conditions, matching and guards, cold", n / times["cold"].median, at_least=2000)]


def bench_online(candidates: Sequence[Candidate], rounds: int = 3) -> list[Target]:
    """Time every request against its own entry, prepared before, with all memos cleared before each call."""
    entries = [prepare_entry(one.q_cache, one.r_cache, one.context_cache) for one in candidates]
    calls = np.array(
        [[_one_call(entry, one) for entry, one in zip(entries, candidates, strict=True)] for _ in range(1 + rounds)]
    )[1:]
    print(f"\nOne request against a prepared entry, {len(candidates)} pairs, {rounds} rounds, memos cleared each time")
    for percent in (50, 99):
        (wall, low, high), (processor, _, _) = (_over_rounds(calls[..., clock], percent) for clock in (0, 1))
        print(f"  p{percent} {wall:6.2f} ms  [{low:.2f}, {high:.2f}]  processor time {processor:.2f} ms")
    return [Target("milliseconds for one request against a prepared entry, p99", wall, at_most=5)]


def _one_call(entry: PreparedEntry, one: Candidate) -> tuple[float, float]:
    """Return milliseconds by the wall clock and of processor time."""
    forget_texts()
    start, used = time.perf_counter(), time.process_time()
    score_request(entry, one.q_probe, one.context_probe)
    return 1e3 * (time.perf_counter() - start), 1e3 * (time.process_time() - used)


def _over_rounds(values: NDArray[np.float64], percent: float) -> tuple[float, float, float]:
    """Return the percentile over pairs: median, least and greatest of the rounds."""
    found = np.percentile(values, percent, axis=1)
    return float(np.median(found)), float(found.min()), float(found.max())


def _metered(function: Callable[[], object], spent: list[float]) -> Callable[[], None]:
    """Return the function with its processor time added to `spent` at every call."""

    def run() -> None:
        start = time.process_time()
        function()
        spent.append(time.process_time() - start)

    return run
