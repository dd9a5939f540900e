"""The verifier-call budget (paper section 3.4, "Budget-aware decision"), for replay and for serving."""

import threading
from dataclasses import dataclass

from cachemend.calibration.errors import CalibrationError
from cachemend.calibration.routing.exact import Rate, exact_rate, whole_part

WINDOW = 100


@dataclass(frozen=True, kw_only=True)
class TokenBucket:
    """A budget without windows: each candidate earns the rate ``B``, each call spends 1.

    The bucket starts empty, so that at most ``floor(B * t)`` of the first t candidates are verified, for every t.

    Attributes:
        capacity: calls that may be saved up; it bounds how many can follow one another.
    """

    capacity: int

    def __post_init__(self) -> None:
        if isinstance(self.capacity, bool) or not isinstance(self.capacity, int) or self.capacity < 1:
            raise CalibrationError(f"the token bucket's capacity is {self.capacity!r}; it must be a whole number >= 1")


Window = int | TokenBucket
"""Candidates per window of ``floor(B * N_W)`` calls, or a token bucket."""


class VerifierBudget:
    """Counts candidates as they come and says which of them may be verified; safe to share between threads.

    Args:
        budget: verifier calls per candidate, B, from 0 to 1.
        window: candidates per window, each of which has ``floor(B * window)`` calls; or a token bucket.

    Raises:
        CalibrationError: a budget outside 0 to 1, or an empty window.
    """

    def __init__(self, budget: Rate, window: Window = WINDOW) -> None:
        _check_window(window)
        self.budget = exact_rate("the verifier budget", budget)
        self.window = window
        self._lock = threading.Lock()
        self._take = self._from_bucket if isinstance(window, TokenBucket) else self._from_window
        self._seen = self._used = self._tokens = 0

    def take(self, wanted: bool) -> bool:
        """Count one candidate, whatever is done with it; return whether it is verified.

        Args:
            wanted: the router would verify it. Where it is not wanted, nothing is spent.
        """
        with self._lock:
            return self._take(wanted)

    def _from_window(self, wanted: bool) -> bool:
        assert isinstance(self.window, int)
        if self._seen == self.window:
            self._seen = self._used = 0
        self._seen += 1
        granted = wanted and self._used < whole_part(self.budget, self.window)
        self._used += granted
        return granted

    def _from_bucket(self, wanted: bool) -> bool:
        assert isinstance(self.window, TokenBucket)
        # In units of 1 / denominator: whole numbers, so that nothing is lost in a million additions.
        earned, price = self.budget.numerator, self.budget.denominator
        self._tokens = min(self._tokens + earned, self.window.capacity * price)
        granted = wanted and self._tokens >= price
        self._tokens -= price * granted
        return granted


def windows(n: int, window: int | None) -> list[tuple[int, int]]:
    """First and one past the last place of each window over `n` candidates; one window where `window` is None.

    Raises:
        CalibrationError: a window of fewer than one candidate.
    """
    if window is None:
        return [(0, n)] if n else []
    _check_window(window)
    return [(start, min(start + window, n)) for start in range(0, n, window)]


def _check_window(window: Window) -> None:
    if isinstance(window, TokenBucket):
        return
    if isinstance(window, bool) or not isinstance(window, int) or window < 1:
        raise CalibrationError(f"the budget window is {window!r}; it must be a whole number of candidates >= 1")
