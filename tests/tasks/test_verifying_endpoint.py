"""The endpoint source against a real server on this machine that misbehaves in every way it can."""

import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from pydantic import SecretStr

from cachemend.calibration.candidate import Candidate
from cachemend.calibration.verdicts import INSTRUCTION, Verdict, verifier_message
from cachemend.repair_core.errors import InputError
from cachemend.tasks.verifying.endpoint import Endpoint
from cachemend.tasks.verifying.remote import EndpointVerifier

KEY = "sk-7e1f0c55"
Behave = Callable[[BaseHTTPRequestHandler, int], None]


def candidate(text: str) -> Candidate:
    return Candidate(q_cache=f"private {text}", r_cache="r", context_cache="", q_probe=text, context_probe="")


ONE = [candidate("one")]


@dataclass
class Served:
    """A server; `behave` answers a request, whose number it is given."""

    behave: Behave = field(default=lambda handler, number: say(handler, "VALID"))
    requests: list[dict[str, Any]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    active: int = 0
    most_active: int = 0
    url: str = ""


def say(handler: BaseHTTPRequestHandler, text: object) -> None:
    send(handler, 200, {"choices": [{"message": {"role": "assistant", "content": text}}]})


def send(handler: BaseHTTPRequestHandler, status: int, body: object, **headers: str) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)


@pytest.fixture
def served() -> Iterator[Served]:
    state, lock = Served(), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            with lock:
                number = len(state.requests)
                state.times.append(time.monotonic())
                state.headers.append(dict(self.headers))
                state.requests.append({})
                state.active += 1
                state.most_active = max(state.most_active, state.active)
            state.requests[number] = {
                "path": self.path,
                **json.loads(self.rfile.read(int(self.headers["Content-Length"]))),
            }
            try:
                state.behave(self, number)
            except OSError:
                pass  # the client has gone
            finally:
                with lock:
                    state.active -= 1

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    state.url = f"http://127.0.0.1:{server.server_port}/v1"
    yield state
    server.shutdown()
    server.server_close()


def verifier(served: Served, key: str | None = KEY, **options: Any) -> EndpointVerifier:
    patient = {"attempt_seconds": 2.0, "deadline_seconds": 5.0, "backoff_seconds": 0.01, "retries": 2}
    endpoint = Endpoint(url=served.url, model="judge", **{**patient, **options})
    return EndpointVerifier(endpoint, SecretStr(key) if key else None)


def test_the_request_is_the_published_one(served: Served) -> None:
    source = verifier(served)
    assert source.verdicts(ONE) == [Verdict.VALID]
    (request,) = served.requests
    assert request == {
        "path": "/v1/chat/completions",
        "model": "judge",
        "messages": [
            {"role": "system", "content": INSTRUCTION},
            {"role": "user", "content": verifier_message(ONE[0])},
        ],
        "temperature": 0,
        "max_tokens": 8,
    }
    assert served.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert source.verdicts([]) == []
    assert verifier(served, key=None).verdicts(ONE) == [Verdict.VALID]
    assert "Authorization" not in served.headers[1]


def test_answers_are_read_exactly_and_in_order(served: Served) -> None:
    texts = {"one": "VALID", "two": "INVALID", "three": "UNCERTAIN", "four": "VALID.", "five": "", "six": " VALID"}

    def behave(handler: BaseHTTPRequestHandler, number: int) -> None:
        asked = json.loads(served.requests[number]["messages"][1]["content"])["q_probe"]
        time.sleep(0.05 if asked == "one" else 0)
        say(handler, texts[asked])

    served.behave = behave
    found = verifier(served).verdicts([candidate(text) for text in texts])
    assert [verdict.name for verdict in found] == ["VALID", "INVALID", "UNCERTAIN", *["MALFORMED"] * 3]


@pytest.mark.parametrize("status", [500, 503, 429, 408])
def test_trouble_that_may_pass_is_tried_again(served: Served, status: int) -> None:
    served.behave = lambda handler, number: send(handler, status, {}) if number < 2 else say(handler, "VALID")
    assert verifier(served).verdicts(ONE) == [Verdict.VALID]
    assert len(served.requests) == 3


def close(handler: BaseHTTPRequestHandler, _: int) -> None:
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)


def half(handler: BaseHTTPRequestHandler, _: int) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [')
    handler.close_connection = True


def test_a_closed_connection_is_tried_again(served: Served) -> None:
    served.behave = lambda handler, number: [close, half, lambda h, _: say(h, "VALID")][number](handler, number)
    assert verifier(served).verdicts(ONE) == [Verdict.VALID]
    assert len(served.requests) == 3


@pytest.mark.parametrize(
    ("reply", "attempts"),
    [
        (lambda h, _: send(h, 500, {}), 3),
        (close, 3),
        (half, 3),
        (lambda h, _: send(h, 401, {"error": "who?"}), 1),
        (lambda h, _: send(h, 404, {}), 1),
        (lambda h, _: send(h, 302, {}, Location="http://127.0.0.1:9/"), 1),
        (lambda h, _: send(h, 200, b"<html>VALID</html>"), 1),
        (lambda h, _: send(h, 200, b"\xff\xfe"), 1),
        (lambda h, _: send(h, 200, b"[" * 100_000), 1),
        (lambda h, _: send(h, 200, b" " * 1_000_001), 1),
        (lambda h, _: send(h, 200, "VALID"), 1),
        (lambda h, _: send(h, 200, {"choices": []}), 1),
        (lambda h, _: send(h, 200, {"choices": [{"message": "VALID"}]}), 1),
        (lambda h, _: say(h, None), 1),
        (lambda h, _: say(h, ["VALID"]), 1),
        (lambda h, _: send(h, 200, b"junk", Content_Encoding="gzip"), 1),
        (lambda h, _: h.wfile.write(b"garbage\r\n\r\n"), 3),
    ],
)
def test_no_answer_is_a_failure_and_never_an_exception(served: Served, reply: Behave, attempts: int) -> None:
    served.behave = reply
    assert verifier(served).verdicts(ONE) == [Verdict.FAILED]
    assert len(served.requests) == attempts


@pytest.mark.parametrize(
    "reply",
    [(400, {"error": {"code": "context_length_exceeded"}}), (413, {}), (400, {"error": "context_length_exceeded"})],
)
def test_a_question_that_is_too_long_overflows(served: Served, reply: tuple[int, object]) -> None:
    served.behave = lambda handler, _: send(handler, *reply)
    assert verifier(served).verdicts(ONE) == [Verdict.OVERFLOW]


def test_a_slow_server_costs_one_attempt_at_a_time(served: Served) -> None:
    def behave(handler: BaseHTTPRequestHandler, number: int) -> None:
        time.sleep(0.5 if number == 0 else 0)
        say(handler, "VALID")

    served.behave = behave
    assert verifier(served, attempt_seconds=0.15).verdicts(ONE) == [Verdict.VALID]
    assert len(served.requests) == 2


def drip(handler: BaseHTTPRequestHandler, _: int) -> None:
    """Send a byte now and then: no single read times out."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    for _ in range(100):
        handler.wfile.write(b" ")
        handler.wfile.flush()
        time.sleep(0.05)


def test_a_reply_that_trickles_ends_at_the_deadline(served: Served) -> None:
    served.behave = drip
    start = time.monotonic()
    found = verifier(served, attempt_seconds=0.4, deadline_seconds=0.5).verdicts([candidate(str(i)) for i in range(3)])
    assert found == [Verdict.FAILED] * 3
    assert time.monotonic() - start < 2


def test_retry_after_is_waited_for_but_not_past_the_deadline(served: Served) -> None:
    served.behave = lambda h, number: send(h, 429, {}, Retry_After="1") if number == 0 else say(h, "VALID")
    assert verifier(served).verdicts(ONE) == [Verdict.VALID]
    assert served.times[1] - served.times[0] >= 0.95
    for value in ("3600", "Fri, 31 Dec 2100 23:59:59 GMT"):
        served.behave = lambda h, _, value=value: send(h, 429, {}, Retry_After=value)
        start = time.monotonic()
        assert verifier(served).verdicts(ONE) == [Verdict.FAILED]
        assert time.monotonic() - start < 1
    for value in ("soon", "Mon, 01 Jan 0001 00:00:00 +1400", "-5"):
        before = len(served.requests)
        served.behave = lambda h, number, value=value, before=before: (
            send(h, 503, {}, Retry_After=value) if number == before else say(h, "VALID")
        )
        assert verifier(served).verdicts(ONE) == [Verdict.VALID]


def test_waits_grow_and_are_never_the_whole_backoff_twice(served: Served) -> None:
    served.behave = lambda handler, _: send(handler, 500, {})
    verifier(served, backoff_seconds=0.1, retries=3).verdicts(ONE)
    waits = [later - earlier for earlier, later in zip(served.times, served.times[1:], strict=False)]
    for number, wait in enumerate(waits):
        assert 0.05 * 2**number - 0.01 <= wait <= 0.1 * 2**number + 0.25


def test_calls_are_bounded_in_number_and_rate(served: Served) -> None:
    def behave(handler: BaseHTTPRequestHandler, _: int) -> None:
        time.sleep(0.03)
        say(handler, "VALID")

    served.behave = behave
    many = [candidate(str(i)) for i in range(12)]
    assert verifier(served, concurrency=3).verdicts(many) == [Verdict.VALID] * 12
    assert served.most_active == 3
    before = len(served.times)
    verifier(served, per_second=20.0).verdicts(many[:6])
    assert served.times[-1] - served.times[before] >= 5 / 20 - 0.03


def test_a_server_that_is_down_is_left_alone_after_some_failures(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    served.behave = lambda handler, _: send(handler, 500, {})
    source = verifier(served, failures=3, concurrency=1, retries=0)
    many = [candidate(str(i)) for i in range(50)]
    assert source.verdicts(many) == [Verdict.FAILED] * 50
    assert len(served.requests) == 3
    served.behave = lambda handler, _: say(handler, "VALID")
    assert source.verdicts(many) == [Verdict.FAILED] * 50
    assert len(served.requests) == 3
    assert caplog.text.count("no more candidates are sent") == 1


def test_failures_that_are_not_in_a_row_do_not_add_up(served: Served) -> None:
    served.behave = lambda handler, n: say(handler, "VALID") if n % 3 == 2 else send(handler, 500, {})
    found = verifier(served, failures=3, concurrency=1, retries=0).verdicts([candidate(str(i)) for i in range(12)])
    assert found == [Verdict.FAILED, Verdict.FAILED, Verdict.VALID] * 4


def test_nobody_at_home(served: Served) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    served.url = f"http://127.0.0.1:{port}/v1"
    assert verifier(served, failures=2).verdicts([candidate(str(i)) for i in range(20)]) == [Verdict.FAILED] * 20


def test_neither_key_nor_text_is_logged(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    replies: list[Behave] = [
        lambda h, _: send(h, 401, {"error": f"bad key {KEY} for private"}, X_Echo=f"{KEY} private"),
        lambda h, _: send(h, 500, {"error": f"{KEY} private"}, X_Echo=KEY),
        lambda h, _: send(h, 200, f"private {KEY}".encode()),
        lambda h, _: say(h, f"private {KEY}"),
        close,
    ]
    with caplog.at_level(logging.DEBUG):
        for reply in replies:
            served.behave = reply
            source = verifier(served, retries=0)
            source.verdicts(ONE)
            assert KEY not in repr(vars(source)["_endpoint"])
    assert caplog.text.count("verifier call for candidate") == 4
    assert KEY not in caplog.text
    assert "private" not in caplog.text


@pytest.mark.parametrize("key", ["two words", "line\nbreak", "schlüssel", "", "tab\t"])
def test_a_key_that_no_header_carries_is_refused_without_repeating_it(served: Served, key: str) -> None:
    with pytest.raises(InputError, match="CACHEMEND_VERIFIER_KEY") as caught:
        EndpointVerifier(Endpoint(url=served.url, model="judge"), SecretStr(key))
    assert not key or key not in str(caught.value)


def test_a_key_does_not_cross_a_network_in_the_clear() -> None:
    with pytest.raises(InputError, match="unencrypted"):
        EndpointVerifier(Endpoint(url="http://judge.example/v1", model="judge"), SecretStr(KEY))
    EndpointVerifier(Endpoint(url="https://judge.example/v1", model="judge"), SecretStr(KEY))
    EndpointVerifier(Endpoint(url="http://judge.example/v1", model="judge"))
    EndpointVerifier(Endpoint(url="http://localhost:1/v1", model="judge"), SecretStr(KEY))


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"url": "ftp://host/v1"}, "no plain http"),
        ({"url": "host/v1"}, "no plain http"),
        ({"url": "http://user:pass@host/v1"}, "no plain http"),
        ({"url": "http://host:port/v1"}, "cannot be read"),
        ({"url": "http://host/v1?key=pass"}, "a query or a fragment"),
        ({"model": ""}, "has no name"),
        ({"retries": -1}, "retries is -1; it must be at least 0"),
        ({"concurrency": 0}, "concurrency is 0; it must be at least 1"),
        ({"deadline_seconds": float("inf")}, "deadline_seconds is inf"),
        ({"attempt_seconds": 0.0}, "attempt_seconds is 0"),
        ({"concurrency": 50, "per_second": 0.1}, "lower concurrency"),
    ],
)
def test_an_endpoint_that_cannot_be_used_is_refused(options: dict[str, Any], line: str) -> None:
    with pytest.raises(InputError, match=line) as caught:
        Endpoint(**{"url": "https://host/v1", "model": "judge", **options})
    assert "pass" not in str(caught.value)


def test_fingerprints_tell_endpoints_apart() -> None:
    one, other, third = (
        EndpointVerifier(Endpoint(url=url, model=model)).fingerprint
        for url, model in [("https://a/v1", "m"), ("https://a/v1/", "m"), ("https://a/v1", "n")]
    )
    assert one == other != third
