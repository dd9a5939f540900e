"""Replay of a policy over candidates in a given order, under the verifier budget (paper equation 7)."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cachemend.calibration.routing.budget import TokenBucket, VerifierBudget, Window, windows
from cachemend.calibration.routing.exact import Rate, exact_rate
from cachemend.calibration.routing.regions import REGENERATE, REUSE, VERIFY


class Replay(NamedTuple):
    """What became of n candidates.

    Attributes:
        action: `REUSE`, `VERIFY` (sent to the verifier) or `REGENERATE`, shape ``[n]``. A candidate that should
            have been verified after the budget was used up is regenerated, never reused.
        accepted: the cached response was returned, directly or after verification; bool ``[n]``.
        verified: a verifier call was made; bool ``[n]``.
        demand: verifier calls there would have been without a budget.
    """

    action: NDArray[np.int8]
    accepted: NDArray[np.bool_]
    verified: NDArray[np.bool_]
    demand: int


def replay(
    actions: ArrayLike, verdicts: ArrayLike, order: ArrayLike, budget: Rate, window: Window | None = None
) -> Replay:
    """Serve candidates in `order`; those to verify get a call while the budget lasts.

    Args:
        actions: of `route`, shape ``[n]``.
        verdicts: whether the verifier says exactly VALID to each candidate, bool ``[n]``; read for those only that
            are verified.
        order: a permutation of ``0 .. n - 1``: which candidate comes first, second, ...
        budget: verifier calls per candidate, B.
        window: None for one window over all candidates; candidates per window, the last being shorter; or a token
            bucket. A window of N candidates has ``floor(B * N)`` calls.

    Raises:
        CalibrationError: a budget outside 0 to 1, or an empty window.
        ValueError: lengths that differ, unknown actions, verdicts that are not bool, or an order that is none.
    """
    action = np.array(actions, dtype=np.int8)
    n = len(action)
    if action.ndim != 1 or not np.isin(action, (REGENERATE, REUSE, VERIFY)).all():
        raise ValueError("actions must be one-dimensional and hold REGENERATE, REUSE or VERIFY")
    says_valid = flags("verdicts", verdicts, n)
    wanted = action == VERIFY
    verified = np.zeros(n, dtype=bool)
    for part, meter in _meters(permutation(order, n), exact_rate("the verifier budget", budget), window):
        for index in part.tolist():
            verified[index] = meter.take(bool(wanted[index]))
    action[wanted & ~verified] = REGENERATE
    return Replay(action, (action == REUSE) | (verified & says_valid), verified, int(wanted.sum()))


def _meters(
    order: NDArray[np.intp], budget: Rate, window: Window | None
) -> list[tuple[NDArray[np.intp], VerifierBudget]]:
    """The parts of the order that share a budget. The last window counts only the candidates it has."""
    if isinstance(window, TokenBucket):
        return [(order, VerifierBudget(budget, window))]
    parts = [order[start:stop] for start, stop in windows(len(order), window)]
    return [(part, VerifierBudget(budget, len(part))) for part in parts]


def permutation(order: ArrayLike, n: int) -> NDArray[np.intp]:
    """Return `order` as an index array.

    Raises:
        ValueError: it is no permutation of ``0 .. n - 1``.
    """
    index: NDArray[Any] = np.asarray(order)
    if index.shape != (n,) or (n and index.dtype.kind not in "iu") or not np.array_equal(np.sort(index), np.arange(n)):
        raise ValueError(f"order, of shape {index.shape}, is no permutation of 0 to {n - 1}")
    return index.astype(np.intp)


def flags(name: str, values: ArrayLike, n: int) -> NDArray[np.bool_]:
    """Return `values` as a bool array of shape ``[n]``.

    Raises:
        ValueError: another shape, or values that are not bool.
    """
    array: NDArray[Any] = np.asarray(values)
    if array.shape != (n,) or (n and array.dtype != np.bool_):
        raise ValueError(f"{name} has shape {array.shape} and type {array.dtype}; give {n} booleans")
    return array.astype(bool)
