"""What a GPU should reach at the shape of the paper's model, and whether the measured times do."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from cachemend.tasks.bench.target import Target
from cachemend.tasks.execution.lines import GQA_SDPA

LENGTH = 8192
"""N of every target; their R is the largest measured."""

EAGER, GRAPH, FUSED = "packed", "packed-graph", "packed-graph-fused"
FLOOR = "floor of weights and visible K/V without the copy"
_Row = Mapping[str, Any]


class Judged(NamedTuple):
    """A target: as it reads, and whether it is met; None where what it needs was not measured."""

    line: str
    met: bool | None


def judge(refresh: Sequence[_Row], attention: Sequence[_Row]) -> list[Judged]:
    """Every target, from the rows of both studies; of several backends the fastest counts and is named.

    A row that is wrong, or did not run, counts for nothing.
    """
    by_executor = {name: _right(refresh, "executor", name) for name in (EAGER, GRAPH, FUSED)}
    return [
        _fastest(by_executor[EAGER], f"eager refresh at N={LENGTH}, ms", lambda row: 1e3 * row["seconds_median"], 20),
        _fastest(by_executor[GRAPH], f"CUDA graph at N={LENGTH} over the {FLOOR}", _over_floor, 2.7),
        _fastest(by_executor[FUSED], f"fused CUDA graph at N={LENGTH} over the {FLOOR}", _over_floor, 2),
        *(_flat(name, rows) for name, rows in by_executor.items()),
        _custom(attention),
    ]


def _right(rows: Sequence[_Row], column: str, value: str) -> list[_Row]:
    found = [row for row in rows if row["length"] == LENGTH and row[column] == value and row["outcome"] == "ok"]
    return [row for row in found if row["seconds_median"] is not None]


def _over_floor(row: _Row) -> float:
    return float(row["seconds_median"] / max(row["floor_flops_seconds"], row["floor_bytes_seconds"]))


def _fastest(rows: Sequence[_Row], name: str, measure: Callable[[_Row], float], at_most: float) -> Judged:
    if not rows:
        return _missing(name)
    many = max(row["n_intervals"] for row in rows)
    best = min((row for row in rows if row["n_intervals"] == many), key=measure)
    return _judged(Target(f"{name}, R={many}, {best['attention']}", measure(best), at_most=at_most))


def _flat(executor: str, rows: Sequence[_Row]) -> Judged:
    """Slowest over fastest R, of the backend that is fastest at its slowest R."""
    name = f"{executor} at N={LENGTH}, slowest over fastest R"
    times: dict[str, list[float]] = {}
    for row in rows:
        times.setdefault(row["attention"], []).append(row["seconds_median"])
    complete = {name: own for name, own in times.items() if len(own) == max(map(len, times.values())) > 1}
    if not complete:
        return _missing(name)
    best = min(complete, key=lambda attention: max(complete[attention]))
    return _judged(Target(f"{name}, {best}", max(complete[best]) / min(complete[best]), at_most=1.1))


def _custom(rows: Sequence[_Row]) -> Judged:
    """The worst R of the Triton backend whose worst R is best, over SDPA with grouped queries."""
    name = f"custom attention over SDPA + GQA at N={LENGTH}, worst R"
    control = {row["n_intervals"]: row["seconds_median"] for row in _right(rows, "attention", GQA_SDPA)}
    worst = {}
    for backend in dict.fromkeys(row["attention"] for row in rows if row["attention"].startswith("triton")):
        own = {row["n_intervals"]: row["seconds_median"] for row in _right(rows, "attention", backend)}
        if control and own.keys() == control.keys():
            worst[backend] = max(own[n] / control[n] for n in control)
    if not worst:
        return _missing(name)
    best = min(worst, key=lambda backend: worst[backend])
    return _judged(Target(f"{name}, {best}", worst[best], at_most=1))


def _judged(target: Target) -> Judged:
    word = "met" if target.met else "missed"
    return Judged(f"{word}: {target.value:.2f} {target.name} (at most {target.at_most:g})", target.met)


def _missing(name: str) -> Judged:
    return Judged(f"not measured: {name}", None)
