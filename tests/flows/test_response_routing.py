"""The response-routing flow end to end on the shipped pairs, with a tiny model as verifier."""

import json
import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from cachemend.warehouse import store

from support.parts_count import read_rows

pytestmark = pytest.mark.timeout(480)
KEY = "a-key-that-no-file-may-hold"
SERVED = ("verifier=endpoint", "endpoint=http://127.0.0.1/v1", "endpoint_model=m")
SMALL = ("--set", "pools=seed", "--limit", "60", "--set", "splits=2")


@pytest.fixture
def go(command, prefect_server: str, cluster, tiny: Path, tmp_path: Path):  # type: ignore[no-untyped-def]
    def call(*more: object):  # type: ignore[no-untyped-def]
        options = ("--model", tiny, "--results", tmp_path / "results", "--address", cluster.address)
        ended = command("run", "response-routing", *options, *SMALL, *more)
        print(ended.out, ended.err, sep="\n")
        return ended

    return call


class Server(ThreadingHTTPServer):
    """Says VALID to everyone who brings the key, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(asked["messages"][-1]["content"])
        allowed = self.headers["Authorization"] == f"Bearer {KEY}"
        content = json.dumps({"choices": [{"message": {"content": "VALID"}, "finish_reason": "stop"}]}).encode()
        self.send_response(200 if allowed else 401)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(content if allowed else b"{}")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


@pytest.mark.slow
def test_local_verifier_then_endpoint(
    go,  # type: ignore[no-untyped-def]
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    results = tmp_path / "results"
    first = go()
    assert first.code == 0
    assert "pool seed" in first.out
    assert "60 pairs measured" in first.out
    assert "safecache alpha=0 B=0.16" in first.out
    assert len(read_rows(results, "route_records")) == 60
    assert "nothing to do" in go().out
    assert len(read_rows(results, "route_records")) == 60

    # Another verifier is another set of records; the first one's stay.
    monkeypatch.setenv("CACHEMEND_VERIFIER_KEY", KEY)
    url = f"http://127.0.0.1:{server.server_port}/v1"
    served = ("verifier=endpoint", f"endpoint={url}", "endpoint_model=judge", "language_baselines=false")
    with caplog.at_level(logging.DEBUG):
        ended = go(*(part for each in served for part in ("--set", each)))
    assert ended.code == 0
    assert server.asked
    rows = store.query(results, "FROM route_records").to_pylist()
    assert len(rows) == 120
    judged = [row for row in rows if row["verifier_model"] == "judge"]
    assert {row["verdict"] for row in judged} == {"VALID", None}
    assert len(server.asked) == sum(row["verdict"] == "VALID" for row in judged)
    quality = store.query(results, "FROM verifier_quality WHERE verifier LIKE 'endpoint%'").to_pylist()
    assert {row["flag"] for row in quality if row["n"] > 1} == {"constant"}
    points = store.query(results, "SELECT verifier, method, setting, count(*) AS n FROM routing_points GROUP BY ALL")
    assert set(points.column("n").to_pylist()) == {1}
    assert len(set(points.column("verifier").to_pylist())) == 2

    runs = store.query(results, "SELECT status FROM runs").to_pylist()
    assert {row["status"] for row in runs} == {"done"}
    # Neither the key nor a text is in any log; the key is in no file either.
    text = json.loads(server.asked[0])["r_cache"]
    assert KEY not in caplog.text + ended.out + ended.err
    assert text not in caplog.text + ended.out + ended.err
    for file in results.rglob("*"):
        assert not file.is_file() or KEY.encode() not in file.read_bytes(), file


def test_a_verifier_that_is_down_means_regenerate(go, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    down = ("verifier=endpoint", "endpoint=http://127.0.0.1:9/v1", "endpoint_model=judge", "language_baselines=false")
    down += ("endpoint_retries=0", "endpoint_failures=2")
    ended = go(*(part for each in down for part in ("--set", each)))
    assert ended.code == 1
    assert "pairs failed" in ended.out
    results = tmp_path / "results"
    found = store.query(results, "SELECT DISTINCT outcome, verdict FROM route_records WHERE similarity >= 0.5")
    assert found.to_pylist() == [{"outcome": "case_error", "verdict": "FAILED"}]
    accepted = store.query(results, "SELECT count(*) AS n FROM route_exposures WHERE accepted AND action = 'verify'")
    assert accepted.column("n").to_pylist() == [0]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (("pools=sed",), "pools 'sed' is unknown; did you mean 'seed'?"),
        (("pools=stress",), "nothing to calibrate on"),
        (("pools=hard",), "no pairs under"),
        (("verifier=endpoint",), "needs endpoint (https://host/v1) and endpoint_model"),
        (("endpoint=http://127.0.0.1/v1",), "give verifier=endpoint"),
        (("verifier=endpoint", "endpoint=ftp://x", "endpoint_model=m"), "no plain http(s) address"),
        (("endpoint_retries=1",), "endpoint_retries is given, but verifier is 'local'; give verifier=endpoint"),
        ((*SERVED, "endpoint_retries=-1"), "retries is -1; it must be at least 0"),
        ((*SERVED, "endpoint_attempt_seconds=0"), "attempt_seconds is 0.0; it must be at least 0.001"),
        ((*SERVED, "endpoint_per_second=fast"), "config key 'endpoint_per_second'"),
        ((*SERVED, "endpoint_concurrency=400", "endpoint_per_second=1"), "lower concurrency"),
        (("verdicts=missing.parquet", "verifier=recorded"), "'missing.parquet' is no file"),
        (("verifier=recorded",), "give both or neither"),
        (("encoder=/nowhere",), "encoder '/nowhere' cannot be loaded"),
        (("splits=1",), "splits"),
    ],
)
def test_bad_settings(go, settings: tuple[str, ...], told: str, tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("CACHEMEND_DATA", str(tmp_path / "no-data"))
    ended = go(*(part for each in settings for part in ("--set", each)))
    assert ended.code == 2
    assert told in ended.err.splitlines()[-1]
    assert "Traceback" not in ended.err
    assert not list((tmp_path / "results").rglob("*.parquet"))
