"""Progress where no terminal is: plain lines with rate and time left."""

import re

import pytest

from cachemend.tasks.progress import progress


def test_the_last_record_is_always_told(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(10, "work") as advance:
        advance(4)
        advance(6)
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1
    assert re.fullmatch(r"work: 10/10 records, [0-9.]+ records/s, 0 s left", told[0])


def test_nothing_to_do_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(0, "work"):
        pass
    assert capsys.readouterr().err == ""
