"""Bad input is one line on standard error and exit code 2, before anything is written."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from support.processes import start

pytestmark = pytest.mark.timeout(300)


class Bad(NamedTuple):
    """A command line, and what its error line must hold. FOLDER and TINY stand for paths."""

    arguments: tuple[str, ...]
    expected: tuple[str, ...]


RESULTS = ("--results", "FOLDER/results")
RUN = ("run", "erasing-niah", *RESULTS)
GOOD = ("--model", "TINY", "--set", "lengths=280")
# In processes of their own, as a user would meet them.
PROCESSES = {
    "experiment": Bad(("run", "erasing-nia", *RESULTS), ("'erasing-nia'", "'erasing-niah'")),
    "model": Bad((*RUN, "--model", "smollm2-135"), ("'smollm2-135'", "did you mean 'smollm2-135m'")),
    "no weights": Bad((*RUN, "--model", "FOLDER/empty"), ("FOLDER/empty holds no weights",)),
    "allocator": Bad((*RUN, "--set", "allocators=sur,dense-token"), ("'dense-token'", "'dense-tokens'")),
    "budget": Bad((*RUN, "--set", "budgets=5,101"), ("101", "0 to 100")),
    "config key": Bad((*RUN, "--config", "FOLDER/bad.yaml"), ("'alocators'", "'allocators'")),
    "length": Bad((*RUN, "--model", "TINY", "--set", "lengths=4096"), ("4096", "1024")),
    "results": Bad(("run", "erasing-niah", *GOOD, "--results", "/proc/results"), ("/proc/results",)),
    "sql folder": Bad(("sql", "SELECT 1", "--results", "FOLDER/nothing"), ("FOLDER/nothing holds no results",)),
    "report folder": Bad(("report", "--results", "FOLDER/nothing"), ("FOLDER/nothing",)),
    "sql write": Bad(("sql", "COPY (SELECT 1) TO 'FOLDER/out.csv'", *RESULTS), ("COPY",)),
}
# The same way in this process, where each costs milliseconds.
CALLS = {
    "no folder": Bad((*RUN, "--model", "FOLDER/nowhere"), ("FOLDER/nowhere does not exist",)),
    "negative budget": Bad((*RUN, "--set", "budgets=[-1]"), ("-1", "0 to 100")),
    "no number": Bad((*RUN, "--set", "budgets=many"), ("'many'", "0 to 100")),
    "config file": Bad((*RUN, "--config", "FOLDER/none.yaml"), ("FOLDER/none.yaml", "No such file")),
    "set key": Bad((*RUN, "--set", "budget=5"), ("'budget'", "'budgets'")),
    "no assignment": Bad((*RUN, "--set", "budgets"), ("--set key=value",)),
    "no value": Bad((*RUN, "--set", "budgets="), ("budgets=", "no value")),
    "empty list": Bad((*RUN, "--set", "allocators=[]"), ("allocators", "empty list")),
    "executor": Bad((*RUN, "--set", "executor=pack"), ("'pack'", "'packed'")),
    "roster": Bad((*RUN, "--set", "cases=paper"), ("'paper'", "'paper-96'")),
    "twice": Bad((*RUN, "--set", "budgets=[5, 5.0]"), ("twice",)),
    "workers": Bad((*RUN, "--set", "workers=0"), ("'workers'", "0")),
    "results file": Bad(("run", "erasing-niah", *GOOD, "--results", "FOLDER/file"), ("FOLDER/file",)),
    "limit": Bad((*RUN, "--limit", "0"), ("--limit",)),
    "option": Bad((*RUN, "--modle", "x"), ("--modle",)),
    "command": Bad(("runn",), ("'runn'",)),
    "cluster": Bad((*RUN, *GOOD, "--address", "127.0.0.1:9"), ("127.0.0.1:9", "does not answer")),
    "cron": Bad(("serve", "--cron", "every day", "erasing-niah", *GOOD, *RESULTS), ("'every day'",)),
    "sql format": Bad(("sql", "SELECT 1", "--format", "cvs"), ("'cvs'", "'csv'")),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("bad")
    (made / "empty").mkdir()
    (made / "file").write_text("not a folder")
    (made / "bad.yaml").write_text("alocators: [sur]\n")
    return made


Endings = dict[str, "Future[tuple[int, str, str]]"]


@pytest.fixture(scope="module")
def endings(folder: Path, tiny: Path) -> Iterator[Endings]:
    """The processes, two at a time."""

    def end(bad: Bad) -> tuple[int, str, str]:
        process = start(*_filled(bad.arguments, folder, tiny))
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    with ThreadPoolExecutor(2) as pool:
        yield {name: pool.submit(end, bad) for name, bad in PROCESSES.items()}


def _filled(texts: tuple[str, ...], folder: Path, tiny: Path) -> list[str]:
    return [text.replace("FOLDER", str(folder)).replace("TINY", str(tiny)) for text in texts]


def _check(code: int, out: str, err: str, expected: list[str]) -> None:
    assert code == 2, err
    assert out == ""
    assert err.startswith("error: ")
    assert len(err.splitlines()) == 1, err
    for text in expected:
        assert text in err


@pytest.mark.parametrize("name", PROCESSES)
def test_a_process_ends_with_one_line_and_2(name: str, endings: Endings, folder: Path, tiny: Path) -> None:
    _check(*endings[name].result(), _filled(PROCESSES[name].expected, folder, tiny))


@pytest.mark.parametrize("name", CALLS)
def test_a_call_ends_with_one_line_and_2(name: str, command: Callable, folder: Path, tiny: Path) -> None:
    ended = command(*_filled(CALLS[name].arguments, folder, tiny))
    _check(*ended, _filled(CALLS[name].expected, folder, tiny))


def test_nothing_was_written(endings: Endings, folder: Path) -> None:
    for ending in endings.values():
        ending.result()
    assert sorted(path.name for path in folder.rglob("*")) == ["bad.yaml", "empty", "file"]


def test_an_unknown_or_bad_variable_is_named(monkeypatch: pytest.MonkeyPatch, command: Callable) -> None:
    for name, value, expected in (
        ("CACHEMEND_THREAD", "1", "'CACHEMEND_THREADS'"),
        ("CACHEMEND_THREADS", "many", "CACHEMEND_THREADS='many'"),
        ("CACHEMEND_WORKERS", "0", "CACHEMEND_WORKERS='0'"),
    ):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            ended = command("run", "erasing-niah")
        _check(*ended, [expected])


def test_a_cluster_beyond_this_machine_needs_a_token(
    monkeypatch: pytest.MonkeyPatch, command: Callable, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # no token of this user's
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    for mode in ("disabled", "token"):
        monkeypatch.setenv("RAY_AUTH_MODE", mode)
        ended = command("run", "erasing-niah", "--address", "192.0.2.77:6379", "--results", tmp_path / "results")
        _check(*ended, ["192.0.2.77", "RAY_AUTH_MODE=token"])
