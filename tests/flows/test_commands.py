"""The small commands: help, list, data, doctor, sql's formats, report."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.result_rows import record

CODE = """
import json, sys
from cachemend.flows.cli import main
try:
    main({arguments!r})
except SystemExit as end:
    assert end.code == 0, end.code
print(json.dumps(sorted({{"ray", "prefect", "torch"}} & set(sys.modules))), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("arguments", "allowed"), [(["--help"], set()), (["run", "--help"], set()), ([], set()), (["list"], {"torch"})]
)
def test_what_only_informs_loads_nothing_heavy(arguments: list[str], allowed: set[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(arguments=arguments)], capture_output=True, text=True, check=True
    )
    assert done.stdout
    assert set(json.loads(done.stderr.splitlines()[-1])) <= allowed


def test_list_names_everything_a_setting_can_name(command) -> None:
    ended = command("list")
    assert ended.code == 0
    for name in ("erasing-niah", "paper-96", "embedded", "sur", "random-units", "re-prefill", "packed", "smollm2-135m"):
        assert name in ended.out


def test_data_names_what_is_missing(command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CACHEMEND_DATA", str(tmp_path / "none"))
    ended = command("data")
    assert ended.code == 0
    assert str(tmp_path / "none") in ended.out
    assert "missing" in ended.out


def test_doctor_passes_here_and_fails_on_an_unwritable_folder(command, tmp_path: Path) -> None:
    good = command("doctor", "--results", tmp_path / "new" / "results")
    assert good.code == 0, good.out
    for executor in ("interval", "direct", "one-shot", "packed"):
        assert f"ok   executor {executor}" in good.out
    assert not (tmp_path / "new").exists()
    (tmp_path / "file").touch()
    bad = command("doctor", "--results", tmp_path / "file" / "results")
    assert bad.code == 1
    assert "FAIL results" in bad.out


@pytest.fixture
def results(tmp_path: Path) -> Path:
    from cachemend.warehouse.parts import write_part

    write_part(tmp_path / "results", "records", [record()])
    return tmp_path / "results"


def test_sql_prints_tables_csv_and_json(command, results: Path) -> None:
    query = "SELECT 1 AS a, NULL AS b, [1, 2] AS c, 'x,y' AS d, 'nan'::DOUBLE AS e, count(*) AS n FROM records"
    ended = command("sql", query, "--results", results, "--format", "csv")
    assert (ended.code, ended.err) == (0, "")
    assert list(csv.reader(io.StringIO(ended.out))) == [list("abcden"), ["1", "", "[1, 2]", "x,y", "nan", "1"]]
    rows = json.loads(command("sql", query, "--results", results, "--format", "json").out)
    assert rows == [{"a": 1, "b": None, "c": [1, 2], "d": "x,y", "e": None, "n": 1}]
    table = command("sql", query, "--results", results).out
    assert "x,y" in table
    assert "[1, 2]" in table


def test_sql_names_a_part_it_does_not_count(command, results: Path) -> None:
    (results / "records" / "0000.parquet").write_bytes(b"no parquet")
    ended = command("sql", "SELECT count(*) AS n FROM records", "--results", results, "--format", "csv")
    assert ended.code == 0
    assert ended.out.split() == ["n", "1"]
    assert "0000.parquet" in ended.err
    assert len(ended.err.splitlines()) == 1


def test_the_results_folder_can_come_from_the_environment(
    command, monkeypatch: pytest.MonkeyPatch, results: Path
) -> None:
    monkeypatch.setenv("CACHEMEND_RESULTS", str(results))
    assert command("sql", "SELECT count(*) AS n FROM records", "--format", "csv").out.split() == ["n", "1"]


def test_report_goes_where_it_is_told(command, results: Path, tmp_path: Path) -> None:
    ended = command("report", "--results", results, "--out", tmp_path / "page.html")
    assert ended.code == 0
    assert ended.out.strip() == str(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().startswith("<!")
