"""One chat completion: attempts, waits between them, and the answer's text."""

import asyncio
import json
import random
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from cachemend.tasks.verifying.circuit import Circuit, Pace
from cachemend.tasks.verifying.endpoint import Endpoint

_REPLY_BYTES = 1_000_000
_RETRIED = (408, 429)
_TOO_LONG = "context_length_exceeded"


class CallFailed(Exception):
    """No answer; the text says why in a few words and repeats nothing that was sent or received."""


class _TryAgain(Exception):
    """An attempt that failed in a way that may pass.

    Attributes:
        wait: seconds the server asks for; 0 where it does not.
    """

    def __init__(self, reason: str, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.wait = wait


class Call:
    """Asks for one completion.

    Args:
        client: with headers and the time-out of an attempt.
        endpoint: where, and how patiently.
        pace: spaces out attempts.
        circuit: once open, no attempt is made.
    """

    def __init__(self, client: httpx.AsyncClient, endpoint: Endpoint, pace: Pace, circuit: Circuit) -> None:
        self._client = client
        self._endpoint = endpoint
        self._pace = pace
        self._circuit = circuit

    async def answer(self, body: dict[str, object]) -> str | None:
        """Return the answer's text; None where the model says that the question is too long.

        Raises:
            CallFailed: no answer until the deadline, after all retries, or of a kind that no retry helps against.
        """
        seconds = self._endpoint.deadline_seconds
        deadline = asyncio.get_running_loop().time() + seconds
        try:
            async with asyncio.timeout(seconds):
                return await self._attempts(body, deadline)
        except TimeoutError as error:
            raise CallFailed(f"no answer within {seconds:g} s") from error

    async def _attempts(self, body: dict[str, object], deadline: float) -> str | None:
        wait = self._endpoint.backoff_seconds
        for retries_left in range(self._endpoint.retries, -1, -1):
            if self._circuit.open:
                raise CallFailed("given up, since others fail")
            await self._pace.turn()
            try:
                return await self._attempt(body)
            except _TryAgain as failure:
                # Half of it at random, so that calls that failed together do not return together.
                pause = max(failure.wait, wait * random.uniform(0.5, 1.0))
                if not retries_left or asyncio.get_running_loop().time() + pause >= deadline:
                    raise CallFailed(str(failure)) from failure
            await asyncio.sleep(pause)
            wait *= 2
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _attempt(self, body: dict[str, object]) -> str | None:
        url = f"{self._endpoint.url.rstrip('/')}/chat/completions"
        # Escaped: JSON may hold half a surrogate pair, UTF-8 may not.
        content = json.dumps(body).encode("ascii")
        try:
            async with self._client.stream(
                "POST", url, content=content, headers={"Content-Type": "application/json"}
            ) as reply:
                return _text(reply, await _read(reply))
        except httpx.TransportError as error:
            raise _TryAgain(type(error).__name__) from None
        except httpx.HTTPError as error:
            raise CallFailed(type(error).__name__) from None


async def _read(reply: httpx.Response) -> bytes:
    content = b""
    async for piece in reply.aiter_bytes():
        content += piece
        if len(content) > _REPLY_BYTES:
            raise CallFailed("reply too long")
    return content


def _text(reply: httpx.Response, content: bytes) -> str | None:
    status = reply.status_code
    if status in _RETRIED or status >= 500:
        raise _TryAgain(f"HTTP {status}", _seconds(reply.headers.get("Retry-After", "")))
    if status == 413 or (status == 400 and _TOO_LONG.encode() in content):
        return None
    if status != 200:
        raise CallFailed(f"HTTP {status}")
    try:
        told: Any = json.loads(content)
    except (ValueError, RecursionError):
        raise CallFailed("reply is no JSON") from None
    try:
        text = told["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError):
        raise CallFailed("reply of another form") from None
    if not isinstance(text, str):
        raise CallFailed("reply of another form")
    return text


def _seconds(retry_after: str) -> float:
    """Read a Retry-After header: seconds, or a date; 0 for anything else."""
    if retry_after.strip().isdecimal():
        return float(retry_after)
    try:
        until = parsedate_to_datetime(retry_after).astimezone(UTC)
    except (ValueError, OverflowError):
        return 0.0
    return max(0.0, (until - datetime.now(UTC)).total_seconds())
