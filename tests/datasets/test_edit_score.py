"""The flip rule on hand-made answers."""

import pytest

from cachemend.datasets.edit_score import flips, mentions
from cachemend.repair_core.errors import InputError


@pytest.mark.parametrize(
    ("answer", "flipped"),
    [
        (" Tarn", True),
        ("Tarn", True),
        (" Tarn.\n\nThe driver is Tarn", True),
        (" the driver (Tarn), on duty", True),
        ("Tarn-based", True),
        ("\nTarn\n", True),
        (" Tarnley", False),
        (" atTarn", False),
        (" Tarn2", False),
        (" _Tarn", False),
        (" Tarné", False),
        (" tarn", False),
        (" TARN", False),
        (" Tarnley, no: Tarn", True),
        ("", False),
        ("   ", False),
        (" Mirelle", False),
        (" Tarn, not Mirelle", False),
        (" Mirelle\nTarn", False),
        (" Tarn, not Mirelles", True),
        (" Tarn, not mirelle", True),
        (" Somebody", False),
        (" T arn", False),
    ],
)
def test_flip_needs_the_new_value_without_the_old(answer: str, flipped: bool) -> None:
    assert flips(answer, "Tarn", "Mirelle") is flipped


@pytest.mark.parametrize(
    ("answer", "new", "flipped"),
    [
        (" 4917", "4917", True),
        (" 14917", "4917", False),
        (" 4917.5", "4917", True),
        (" a.b", "a.b", True),
        (" axb", "a.b", False),
        (" cost (net) 5", "(net)", True),
        (" Orvane Depot", "Orvane Depot", True),
        (" Orvane  Depot", "Orvane Depot", False),
    ],
)
def test_values_are_plain_text(answer: str, new: str, flipped: bool) -> None:
    assert flips(answer, new, "none of these") is flipped


@pytest.mark.parametrize(("new", "old"), [("", "a"), ("a", "")])
def test_an_empty_value_is_refused(new: str, old: str) -> None:
    with pytest.raises(InputError, match="name is empty"):
        flips("a", new, old)


def test_mentions_the_old_value_by_the_same_rule() -> None:
    assert mentions("not Mirelle.", "Mirelle")
    assert not mentions("not Mirelles.", "Mirelle")
