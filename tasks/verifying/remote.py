"""Verdicts of an OpenAI-compatible chat endpoint."""

import asyncio
import hashlib
import logging
from collections.abc import Sequence

import httpx
from pydantic import SecretStr

from cachemend.calibration.candidate import Candidate
from cachemend.calibration.verdicts import MAX_NEW_TOKENS, RESPONSE_VALIDITY, Question, Verdict, candidate_digest
from cachemend.repair_core.errors import InputError
from cachemend.tasks.verifying.calling import Call, CallFailed
from cachemend.tasks.verifying.circuit import Circuit, Pace
from cachemend.tasks.verifying.endpoint import Endpoint

logger = logging.getLogger(__name__)

KEY_VARIABLE = "CACHEMEND_VERIFIER_KEY"
_DIGITS = 12  # of a candidate's digest in a log line


class EndpointVerifier:
    """A source of verdicts: one chat completion per candidate, at temperature 0 and of at most eight tokens.

    A call that gives no answer in time is `FAILED`; after several in a row, so are all further ones, at once and for
    as long as this object lives. Neither key nor texts reach a log line, an error or a file.

    Args:
        endpoint: where and how.
        key: sent as a bearer token; None for none. It comes from the environment variable CACHEMEND_VERIFIER_KEY.
        question: what is asked.

    Raises:
        InputError: a key that no HTTP header can carry, or one that would cross a network unencrypted.
    """

    decoding = f"temperature=0,max_tokens={MAX_NEW_TOKENS}"

    def __init__(
        self, endpoint: Endpoint, key: SecretStr | None = None, question: Question = RESPONSE_VALIDITY
    ) -> None:
        self.question = question
        self._endpoint = endpoint
        self._headers = _headers(endpoint, key)
        self._circuit = Circuit(endpoint.failures)
        self._pace = Pace(endpoint.per_second)
        # Their lines name every reply's headers, or every request.
        for name in ("httpx", "httpcore"):
            logging.getLogger(name).setLevel(logging.WARNING)

    @property
    def fingerprint(self) -> str:
        """Digest of address and model name: all that is known of a model served elsewhere."""
        text = f"{self._endpoint.url.rstrip('/')}\n{self._endpoint.model}"
        return f"endpoint-{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    def verdicts(self, candidates: Sequence[Candidate]) -> list[Verdict]:
        """As `VerdictSource.verdicts`. Not for callers inside an event loop.

        It ends: after at most ``deadline_seconds`` per candidate, divided by the concurrency.
        """
        return asyncio.run(self._all(candidates))

    async def _all(self, candidates: Sequence[Candidate]) -> list[Verdict]:
        slots = asyncio.Semaphore(self._endpoint.concurrency)
        limits = httpx.Limits(max_connections=self._endpoint.concurrency)
        timeout = httpx.Timeout(self._endpoint.attempt_seconds)
        async with httpx.AsyncClient(headers=self._headers, timeout=timeout, limits=limits) as client:
            return await asyncio.gather(*(self._one(client, slots, candidate) for candidate in candidates))

    async def _one(self, client: httpx.AsyncClient, slots: asyncio.Semaphore, candidate: Candidate) -> Verdict:
        async with slots:
            if self._circuit.open:
                return Verdict.FAILED
            call = Call(client, self._endpoint, self._pace, self._circuit)
            try:
                answer = await call.answer(self._body(candidate))
            except CallFailed as failure:
                logger.warning("verifier call for candidate %s: %s", candidate_digest(candidate)[:_DIGITS], failure)
                self._circuit.failed(str(failure))
                return Verdict.FAILED
        self._circuit.succeeded()
        return Verdict.OVERFLOW if answer is None else self.question.parse(answer)

    def _body(self, candidate: Candidate) -> dict[str, object]:
        return {
            "model": self._endpoint.model,
            "messages": [
                {"role": "system", "content": self.question.instruction},
                {"role": "user", "content": self.question.message(candidate)},
            ],
            "temperature": 0,
            "max_tokens": MAX_NEW_TOKENS,
        }


def _headers(endpoint: Endpoint, key: SecretStr | None) -> dict[str, str]:
    if key is None:
        return {}
    text = key.get_secret_value()
    if not text.isascii() or not text.isprintable() or " " in text or not text:
        raise InputError(f"{KEY_VARIABLE} holds characters that no HTTP header can carry; give the bare key")
    if endpoint.url.startswith("http:") and not endpoint.on_this_machine:
        raise InputError(f"{KEY_VARIABLE} would be sent unencrypted; give an https url, or unset the key")
    return {"Authorization": f"Bearer {text}"}
