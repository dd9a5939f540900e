"""The environment a run prepares: offline, quiet, bound to this machine, and never against the user's word."""

import os
from pathlib import Path

import pytest

from cachemend.flows.settings import DEFAULTS, is_loopback, load_settings, prepare_environment
from cachemend.repair_core.errors import InputError

RAY = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER")


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (*DEFAULTS, *RAY):
        monkeypatch.setenv(name, "x")  # so that what the code sets is undone
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


def test_telemetry_is_off_and_the_users_values_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_LOGGING_LEVEL", "DEBUG")
    prepare_environment()
    assert os.environ["DO_NOT_TRACK"] == "1"
    assert os.environ["PREFECT_SERVER_ANALYTICS_ENABLED"] == "false"
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    assert os.environ["PREFECT_LOGGING_LEVEL"] == "DEBUG"


def test_our_own_cluster_has_a_token_of_its_own() -> None:
    prepare_environment()
    assert os.environ["RAY_AUTH_MODE"] == "token"
    assert len(os.environ["RAY_AUTH_TOKEN"]) == 64


def test_a_cluster_on_this_machine_is_joined_as_it_is(tmp_path: Path) -> None:
    prepare_environment("127.0.0.1:6379")
    assert os.environ["RAY_AUTH_MODE"] == "disabled"
    assert "RAY_AUTH_TOKEN" not in os.environ
    del os.environ["RAY_AUTH_MODE"]
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("0" * 64)
    prepare_environment("auto")
    assert os.environ["RAY_AUTH_MODE"] == "token"


def test_a_cluster_elsewhere_needs_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="RAY_AUTH_MODE=token"):
        prepare_environment("ray://cluster.example:10001")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "1" * 64)
    prepare_environment("ray://cluster.example:10001")
    assert os.environ["RAY_AUTH_MODE"] == "token"
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with pytest.raises(InputError, match="RAY_AUTH_MODE=token"):
        prepare_environment("ray://cluster.example:10001")


@pytest.mark.parametrize(
    ("address", "here"),
    [
        ("auto", True),
        ("localhost:6379", True),
        ("127.0.0.1:6379", True),
        ("http://127.0.0.1:8265", True),
        ("ray://[::1]:10001", True),
        ("10.0.0.1:6379", False),
        ("http://head.example:8265", False),
    ],
)
def test_what_stays_on_this_machine(address: str, here: bool) -> None:
    assert is_loopback(address) is here


def test_variables_are_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CACHEMEND_THREADS", "3")
    monkeypatch.setenv("CACHEMEND_RESULTS", "/somewhere")
    settings = load_settings()
    assert settings.threads == 3
    assert settings.results == Path("/somewhere")
    assert settings.workers is None
