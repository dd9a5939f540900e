"""Prefect's API: the user's own, or a server that lives as long as the process that wants it."""

from pathlib import Path

import pytest
from prefect.settings import PREFECT_API_URL, PREFECT_HOME, temporary_settings

from cachemend.flows.local_server import answers, prefect_api
from cachemend.repair_core.errors import InputError


def test_the_users_api_is_taken(prefect_server: str) -> None:
    with temporary_settings({PREFECT_API_URL: prefect_server}), prefect_api() as url:
        assert url == prefect_server
    assert answers(prefect_server)


def test_an_api_that_does_not_answer_is_named() -> None:
    with (
        temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}),
        pytest.raises(InputError, match=r"127\.0\.0\.1:9"),
        prefect_api(),
    ):
        raise AssertionError("there is no API")


def test_a_home_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        temporary_settings({PREFECT_HOME: tmp_path / "file" / "home", PREFECT_API_URL: None}),
        pytest.raises(InputError, match="PREFECT_HOME"),
        prefect_api(),
    ):
        raise AssertionError("there is no API")
