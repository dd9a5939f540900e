"""Which risks a number of clusters can certify at best, told before anything is calibrated."""

from collections.abc import Sequence
from math import ceil, log, log1p
from typing import NamedTuple

from cachemend.calibration.certified.learn_then_test import DELTA
from cachemend.calibration.certified.levels import check_levels

ALPHAS = (0.025, 0.05, 0.10)


class Advice(NamedTuple):
    """What can be certified.

    Attributes:
        possible: risks within reach, in the order asked.
        needed: error-free independent hits each risk asked needs; None for 0, which is out of reach for ever.
        sentence: the same in words.
    """

    possible: tuple[float, ...]
    needed: dict[float, int | None]
    sentence: str


def error_free_hits(alpha: float, delta: float) -> int | None:
    """Return how many independent hits without an error certify `alpha`: the least n with ``(1-alpha)^n <= delta``.

    The e-values of independent pairs need as many, up to the rounding of their bet. None for a risk of 0.

    Raises:
        ValueError: levels out of range.
    """
    check_levels(alpha, delta)
    if alpha == 0:
        return None
    n = ceil(log(delta) / log1p(-alpha))
    # The quotient of two logarithms may round to the wrong side of a whole number.
    if n > 1 and (1 - alpha) ** (n - 1) <= delta:
        return n - 1
    return n


def advise(n_clusters: int, delta: float = DELTA, alphas: Sequence[float] = ALPHAS, n_starts: int = 1) -> Advice:
    """Tell which risks `n_clusters` calibration clusters can certify at best.

    At best means that the pair drawn of every cluster is a hit of the kind tested and that none is invalid: what is
    not possible here cannot be certified, what is possible may still fail.

    Args:
        n_clusters: clusters of the calibration subset.
        delta: error level.
        alphas: risks asked for.
        n_starts: sequences of tests, among which `delta` is divided.

    Raises:
        ValueError: a negative number of clusters, no start, or levels out of range.
    """
    if n_clusters < 0 or n_starts < 1:
        raise ValueError(f"{n_clusters} clusters and {n_starts} starts; give at least 0 and 1")
    needed = {alpha: error_free_hits(alpha, delta / n_starts) for alpha in alphas}
    possible = tuple(alpha for alpha, n in needed.items() if n is not None and n <= n_clusters)
    within = f"can certify a risk of {_listed(possible)} at best" if possible else "cannot certify any risk asked for"
    hits = "; ".join(_need(alpha, n) for alpha, n in needed.items())
    sentence = f"{n_clusters} calibration clusters {within}, with confidence {_percent(1 - delta)} ({hits})."
    return Advice(possible, needed, sentence)


def _need(alpha: float, n: int | None) -> str:
    return f"{_percent(alpha)} " + ("can never be certified" if n is None else f"needs {n} hits without an error")


def _listed(alphas: Sequence[float]) -> str:
    *head, last = [_percent(alpha) for alpha in alphas]
    return f"{', '.join(head)} or {last}" if head else last


def _percent(value: float) -> str:
    return f"{100 * value:.4g} %"
