"""`cachemend audit`: a sheet of the shipped seed set, and its score."""

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

from cachemend.calibration.bounds import exact_upper
from cachemend.datasets.audit_sheet import row_id
from cachemend.datasets.pairs_seed import build_seed

PAIRS = {row_id(pair.pair_id, pair.candidate): pair for pair in build_seed().pairs}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CACHEMEND_DATA", str(tmp_path / "data"))
    return tmp_path


def fill(path: Path, wrong: int = 0, blank: int = 0) -> list[str]:
    """Fill in the labels, but turn the first `wrong` round and leave the last `blank` out; the rows' names."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    for number, row in enumerate(rows):
        label = PAIRS[row["row"]].label
        row["verdict"] = "" if number >= len(rows) - blank else str(1 - label if number < wrong else label)
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return [row["row"] for row in rows]


def test_write_fill_and_score(command: Callable, here: Path) -> None:
    ended = command("audit")
    assert (ended.code, ended.err) == (0, "")
    assert [path.name for path in here.iterdir()] == ["audit-seed.csv"]
    assert "120 of 360 pairs" in ended.out
    call = ended.out.strip().rpartition("run cachemend ")[2].split()
    assert call == ["audit", "--pool", "seed", "--score", "audit-seed.csv"]

    rows = fill(here / "audit-seed.csv", wrong=1)
    assert len(rows) == 120
    ended = command(*call)
    assert ended.code == 0
    assert "119 of 120 verdicts agree with the labels: 99.2 %" in ended.out
    assert f"at least {100 * (1 - exact_upper(1, 120)):.1f} %" in ended.out
    assert ended.out.splitlines()[1] == f"they disagree on {PAIRS[rows[0]].pair_id}"


def test_rows_that_are_not_filled_in_are_named(command: Callable, here: Path) -> None:
    assert command("audit", "--n", 9, "--out", here / "nine.csv").code == 0
    rows = fill(here / "nine.csv", blank=2)
    ended = command("audit", "--score", here / "nine.csv")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == f"error: {here / 'nine.csv'}: 2 rows have no verdict: {rows[-2]}, {rows[-1]}\n"


def test_a_sheet_that_is_there_stays(command: Callable, here: Path) -> None:
    assert command("audit", "--n", 3).code == 0
    before = (here / "audit-seed.csv").read_bytes()
    ended = command("audit", "--n", 4)
    assert ended.code == 2
    assert "audit-seed.csv is there already" in ended.err
    assert (here / "audit-seed.csv").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--pool", "sed"), "'seed'"),
        (("--pool", "hard"), "data"),
        (("--pool", "reconstruction"), "data"),
        (("--n", "0"), "from 1 to 360"),
        (("--n", "361"), "from 1 to 360"),
        (("--out", "file/sheet.csv"), "file/sheet.csv"),
        (("--score", "none.csv"), "none.csv is not there"),
        (("--score", "none.csv", "--n", "5"), "--n are for writing"),
        (("--score", "file.csv"), "column 'row' is missing"),
    ],
)
def test_bad_input_is_one_line(arguments: tuple[str, ...], expected: str, command: Callable, here: Path) -> None:
    (here / "file").touch()
    (here / "file.csv").write_text("a,b\n1,2\n")
    ended = command("audit", *arguments)
    assert (ended.code, ended.out) == (2, "")
    (line,) = ended.err.splitlines()
    assert expected in line
    assert sorted(path.name for path in here.iterdir()) == ["file", "file.csv"]
