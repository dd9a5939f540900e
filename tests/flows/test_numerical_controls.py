"""The numerical controls end to end on a tiny model, and what a second run computes."""

from collections import Counter
from pathlib import Path

import pytest

from cachemend.flows.numerical_config import NumericalConfig
from cachemend.flows.overrides import build_config
from cachemend.repair_core.errors import InputError
from cachemend.warehouse import store

from support.parts_count import read_rows

pytestmark = pytest.mark.timeout(480)
SETTINGS = ("--set", "cases=embedded-dev", "--set", "lengths=280", "--set", "budgets=10", "--set", "workers=1")


def test_three_studies_and_nothing_twice(command, prefect_server, cluster, tiny, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    def go(*more: object):  # type: ignore[no-untyped-def]
        options = ("--model", tiny, *SETTINGS, "--limit", "2", "--results", tmp_path, "--address", cluster.address)
        ended = command("run", "numerical-controls", *options, *more)
        print(ended.out, ended.err, sep="\n")
        return ended

    first = go("--set", "study=repeats", "--set", "executors=packed,interval")
    assert first.code == 0
    rows = read_rows(tmp_path, "repeat_records")
    built = {"re-prefill": 3, "replay": 3, "shift": 3, "sur@10 packed": 3, "sur@10 interval": 3}
    assert Counter(row["arm"] for row in rows if row["cache"] == "built") == {a: 2 * n for a, n in built.items()}
    assert Counter(row["arm"] for row in rows if row["cache"] == "shared") == {"re-prefill": 6}
    assert f"{len(rows)} records computed" in first.out
    found = store.query(tmp_path, "FROM numerical_repeats WHERE output = 'sequence'").to_pylist()
    assert {(row["n"], row["n_of"]) for row in found} == {(2, 2)}
    assert {row["shared"] for row in found} == {0}

    # The other studies, and one more executor of the first.
    every = go("--set", "executors=packed,interval,direct")
    assert every.code == 0
    assert "bound / error" in every.out
    counts = Counter(row["arm"] for row in read_rows(tmp_path, "repeat_records"))
    assert counts == {**{a: 2 * n for a, n in built.items()}, "re-prefill": 12, "sur@10 direct": 6}
    assert len(read_rows(tmp_path, "probe_records")) == 2 * 3
    assert [row["arm"] for row in read_rows(tmp_path, "bound_records")] == ["sur@10 packed"] * 2
    assert "nothing to do" in go("--set", "executors=packed,interval,direct").out
    runs = store.query(tmp_path, "SELECT run_id, status FROM runs").to_pylist()
    assert {row["status"] for row in runs} == {"done"}
    assert Counter(row["run_id"].rsplit("-", 1)[1] for row in runs) == {"repeats": 3, "probes": 2, "bound": 2}
    assert "Numerical controls" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ("executors=packed,bottom-right", "executors 'bottom-right' is unknown"),
        ("executor=interval", "give executors=... instead"),
        ("budgets=0,5", "nothing is recomputed at 0 %"),
        ("cases=embeded", "did you mean 'embedded'"),
        ("study=boundary", "study"),
    ],
)
def test_bad_settings_are_one_line(given: str, line: str) -> None:
    with pytest.raises(InputError, match=line) as caught:
        build_config(NumericalConfig, assignments=[given])
    assert "\n" not in str(caught.value)
