"""docs/library.md says what is true: its example runs as written, its signatures are those of the code."""

import ast
import inspect
import re
import textwrap
from pathlib import Path
from types import FunctionType, ModuleType

import cachemend.calibration as calibration
import cachemend.repair_core as core

PAGE = Path(__file__).parents[1] / "docs" / "library.md"


def signatures() -> str:
    """Every public name as its source states it: `name(arguments) -> result`, or `name = value`."""
    return "\n".join(_signature(module, name) for module in (core, calibration) for name in module.__all__)


def _signature(module: ModuleType, name: str) -> str:
    value = getattr(module, name)
    if not isinstance(value, type | FunctionType):
        return f"{name} = {value!r}"
    node = ast.parse(textwrap.dedent(inspect.getsource(value))).body[0]
    if isinstance(node, ast.FunctionDef):
        return f"{name}({ast.unparse(node.args)}) -> {ast.unparse(node.returns)}"  # type: ignore[arg-type]
    assert isinstance(node, ast.ClassDef)
    init = next((n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
    if init is not None:
        return f"{name}({ast.unparse(init.args).removeprefix('self, ')})"
    stated = (ast.unparse(n) for n in node.body if isinstance(n, ast.Assign | ast.AnnAssign))
    fields = [field for field in stated if not field.startswith("__")]
    return f"class {name}({', '.join(ast.unparse(base) for base in node.bases)}): {', '.join(fields)}".replace("()", "")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)


def test_the_examples_run_as_written(capsys, monkeypatch, tmp_path) -> None:  # type: ignore[no-untyped-def]
    code = blocks("python")[0]
    assert len([line for line in code.splitlines() if line.strip()]) <= 20
    names: dict = {}
    exec(compile(code, str(PAGE), "exec"), names)
    assert len(names["said"]) == 12
    assert "Friday" in capsys.readouterr().out
    assert names["cache"].counts()["stale"] > 0
    # The other blocks go on from it, in reading order. What they calibrate under test is not kept.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for block in blocks("python")[1:]:
        exec(compile(block, str(PAGE), "exec"), names)
    assert len(names["reply"].ids) == 8
    assert names["done"].inserted.tolist() == names["several"].inserted_positions.tolist() != []
    assert names["guess"].advice in ("repair", "replay", "re-prefill")
    _check_the_edits_in_place(names)


def _check_the_edits_in_place(names: dict) -> None:
    """What the page says of them in its comments."""
    assert [names["tokenizer"].decode(said.ids) for said in names["replies"]] == [" seven", " nine"]
    assert names["mended"].decision == names["tabled"].decision == "edit-local@32"
    assert names["by_hand"].counts()["stale"] == len(names["edit"].pool) + 1 - 8
    assert names["again"].decision == "edit-local@8"
    assert names["again"].cache.worst_staleness() == 2
    assert names["limited"].decision == "re-prefill (staleness 2 > 1)"
    assert names["limited"].cache.is_clean
    assert 0 <= names["check"].tv <= 1


def test_every_public_signature_is_listed() -> None:
    assert blocks("text")[0].strip() == signatures()
