"""Where a verifier is served, and how patiently it is asked."""

import math
from dataclasses import dataclass, fields
from ipaddress import ip_address
from urllib.parse import urlsplit

import httpx

from cachemend.repair_core.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Address, limits and time-outs of an OpenAI-compatible server.

    Attributes:
        url: base address, e.g. https://host/v1; without user, query or fragment.
        model: the model's name there.
        attempt_seconds: until one attempt counts as failed.
        deadline_seconds: until a candidate counts as failed, all attempts and waits included.
        retries: attempts after the first; for connection errors and the statuses 408, 429 and 5xx.
        backoff_seconds: wait before the first retry at most, doubled with each; longer where the server asks for it.
        concurrency: calls at a time.
        per_second: attempts per second at most; None for any number.
        failures: candidates in a row that fail until no more are sent.

    Raises:
        InputError: an address or a number that cannot be used; the line names it.
    """

    url: str
    model: str
    attempt_seconds: float = 30.0
    deadline_seconds: float = 120.0
    retries: int = 4
    backoff_seconds: float = 0.5
    concurrency: int = 4
    per_second: float | None = None
    failures: int = 8

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(str(httpx.URL(self.url)))
        except (ValueError, httpx.InvalidURL) as error:
            raise InputError("the verifier's url cannot be read; give one such as https://host/v1") from error
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
            # Not repeated: an address that is refused may hold a password.
            raise InputError("the verifier's url is no plain http(s) address; give one such as https://host/v1")
        if parts.query or parts.fragment:
            raise InputError("the verifier's url has a query or a fragment; give the base address, https://host/v1")
        if not self.model:
            raise InputError("the verifier's model has no name; give the one its endpoint knows it by")
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int | float):
                least = 0 if field.name in ("retries", "backoff_seconds") else 1 if isinstance(value, int) else 1e-3
                if not (math.isfinite(value) and value >= least):
                    raise InputError(f"the verifier's {field.name} is {value}; it must be at least {least}")
        if self.per_second is not None and self.concurrency / self.per_second > self.deadline_seconds:
            raise InputError(
                f"{self.concurrency} verifier calls at {self.per_second} per second take longer than the deadline of "
                f"{self.deadline_seconds} s; lower concurrency"
            )

    @property
    def on_this_machine(self) -> bool:
        """Whether the address is a loopback one."""
        host = urlsplit(self.url).hostname or ""
        try:
            return ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"
