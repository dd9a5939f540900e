"""docs/calibrating.md says what is true: its code runs, its options exist, its output looks as printed."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import typer

from cachemend.flows.cli import app

PAGE = Path(__file__).parents[2] / "docs" / "calibrating.md"
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)


def blocks(language: str) -> list[str]:
    return [text for name, text in BLOCKS if name == language]


def commands() -> list[list[str]]:
    return [shlex.split(line) for block in blocks("sh") for line in block.splitlines()]


def shape(output: str) -> list[str]:
    """The lines, without numbers, rules and the table's columns of them."""
    lines = [re.sub(r"\d+(\.\d+)?", "#", line.rstrip()) for line in output.strip().splitlines()]
    kept = [line for line in lines if line[0] not in "┏┡└│"]
    return [re.sub(" +", " ", line) for line in kept]


def test_the_example_runs_as_written(
    command: Callable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    log, verdicts, service = blocks("python")
    names: dict[str, Any] = {}
    exec(log, names)
    program, *arguments = commands()[0]
    assert program == "cachemend"
    ended = command(*arguments)
    assert ended.code == 0, ended.err
    (shown,) = blocks("text")
    assert shape(ended.out) == shape(shown)
    exec(verdicts, names)
    assert pq.read_table("verdicts.parquet").num_rows == 360
    capsys.readouterr()
    exec(service, names)
    assert capsys.readouterr().out.startswith("regenerate | regenerated: ")
    assert names["explained"]


@pytest.mark.parametrize("line", commands(), ids=" ".join)
def test_every_command_on_the_page_can_be_called(line: list[str]) -> None:
    program, name, *arguments = line
    assert program == "cachemend"
    context = typer.main.get_command(app).commands[name].make_context(name, arguments)  # type: ignore[attr-defined]
    assert context.params


def test_every_option_is_described() -> None:
    known = typer.main.get_command(app).commands["calibrate"].params  # type: ignore[attr-defined]
    options = {text for parameter in known for text in parameter.opts if text.startswith("--")}
    assert options == set(re.findall(r"^\| `(--[a-z-]+)` \|", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE))
