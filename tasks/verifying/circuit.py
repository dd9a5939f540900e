"""Manners towards a server: not too many calls per second, and none any more once it is down."""

import asyncio
import logging
import time

logger = logging.getLogger(__name__)


class Pace:
    """Spaces out calls. Not for several threads.

    Args:
        per_second: calls per second at most; None for any number.
    """

    def __init__(self, per_second: float | None) -> None:
        self._interval = 1 / per_second if per_second else 0.0
        self._next = 0.0

    async def turn(self) -> None:
        """Wait until the next call may start."""
        now = time.monotonic()
        start = max(now, self._next)
        self._next = start + self._interval
        await asyncio.sleep(start - now)


class Circuit:
    """Opens after a number of failures in a row, and then stays open.

    Args:
        limit: failures in a row that open it.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._failures = 0
        self.open = False

    def succeeded(self) -> None:
        self._failures = 0

    def failed(self, reason: str) -> None:
        """Count a failure; `reason` is for the log and holds no text of a request or reply."""
        self._failures += 1
        if self._failures >= self._limit and not self.open:
            self.open = True
            logger.error(
                "the verifier failed %d times in a row, last by %s; no more candidates are sent to it",
                self._failures,
                reason,
            )
