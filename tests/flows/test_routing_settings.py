"""Settings of a routing run that need no run, and the tables that it prints."""

from dataclasses import fields
from io import StringIO

import pytest
from rich.console import Console

from cachemend.flows.overrides import build_config
from cachemend.flows.routing_config import ResponseRoutingConfig
from cachemend.flows.routing_tables import gains_table, traces
from cachemend.repair_core.errors import InputError
from cachemend.tasks.verifying.endpoint import Endpoint

SERVED = {"verifier": "endpoint", "endpoint": "https://host/v1", "endpoint_model": "judge"}
LIMITS = {
    "attempt_seconds": 5.0,
    "deadline_seconds": 40.0,
    "retries": 0,
    "backoff_seconds": 0.25,
    "concurrency": 2,
    "per_second": 1.5,
    "failures": 3,
}


def test_every_limit_of_the_endpoint_can_be_set() -> None:
    assert {field.name for field in fields(Endpoint)} == {"url", "model", *LIMITS}
    given = ResponseRoutingConfig(**SERVED, **{f"endpoint_{name}": value for name, value in LIMITS.items()})
    assert given.server() == Endpoint(url="https://host/v1", model="judge", **LIMITS)
    assert ResponseRoutingConfig(**SERVED).server() == Endpoint(url="https://host/v1", model="judge")


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_without_an_endpoint_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=f"endpoint_{name} is given, but verifier is 'local'"):
        build_config(ResponseRoutingConfig, assignments=[f"endpoint_{name}={LIMITS[name]:g}"])


def test_gains_are_those_at_the_same_target_and_budget() -> None:
    interval = {
        f"d_{rate}{end}": v for rate in ("vchr", "fh") for end, v in (("", 0.02), ("_low", -0.01), ("_high", 0.05))
    }
    rows = [
        {"reference": reference, "method": method, "setting": setting, **interval}
        for reference in ("alpha=0 B=0.3", "alpha=0.025 B=0.3")
        for method, setting in (
            ("exact-match", "query"),
            ("gptcache", "tau=0.9"),
            ("similarity-verifier", "alpha=0 B=0.3"),
            ("similarity-verifier", "alpha=0.025 B=0.3"),
        )
    ]
    console = Console(file=StringIO(), width=200)
    console.print(gains_table(rows))
    lines = [line for line in console.file.getvalue().splitlines() if "+2.00 (-1.00 to +5.00)" in line]
    assert len(lines) == 4
    for line, reference, rival in zip(
        lines,
        [row for row in ("alpha=0 B=0.3", "alpha=0.025 B=0.3") for _ in range(2)],
        (
            "exact-match query",
            "similarity-verifier alpha=0 B=0.3",
            "exact-match query",
            "similarity-verifier alpha=0.025",
        ),
        strict=True,
    ):
        assert reference in line
        assert rival in line


def test_what_limits_the_figures_is_told_in_lines() -> None:
    probe = {"pool": "seed", "source": "seed", "side": "response", "n": 60}
    probes = [
        probe | {"auroc": 0.71, "within_target": False},
        probe | {"auroc": 0.5, "within_target": True},
        probe | {"auroc": None, "within_target": None},
    ]
    point = {"pool": "seed", "method": "vcache", "setting": "online", "diagnostic": False}
    observed = {"observations_mean": 1.25, "observations_max": 5, "observations_ready": 0.031}
    points = [point | observed, point | observed | {"diagnostic": True}, point | dict.fromkeys(observed)]
    told = traces(points, probes)
    assert len(told) == 3
    assert told[0].startswith("pool seed, source seed: the response alone tells the label with AUROC 0.710 (60 pairs)")
    assert told[1] == "too few clusters to ask whether one side tells the label: seed (seed, response)"
    assert "1.25 observations per cached entry, at most 5; 3.1% of entries" in told[2]
