"""Cache logs: real files of every kind, good and bad."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cachemend.calibration.candidate import Candidate
from cachemend.datasets.pair_log import TEXTS, clusters_of, read_log
from cachemend.repair_core.errors import InputError

SECRET = "my card number is 4929"
ROWS: list[dict[str, Any]] = [
    {"q_cache": "Opening hours?", "r_cache": "9 to 5.", "context_cache": "day: Monday", "q_probe": "When open?"},
    {"q_cache": "Opening hours?", "r_cache": "9 to 5.", "context_cache": "day: Monday", "q_probe": "On Sunday?"},
    {"q_cache": "2024-01-05", "r_cache": "A Friday,\nall day.", "context_cache": "", "q_probe": '"Fri"?'},
    {"q_cache": "007", "r_cache": "null", "context_cache": "NA", "q_probe": "NaN"},
]
ROWS = [{**row, "context_probe": f"n: {number}", "label": number % 2} for number, row in enumerate(ROWS)]


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> Path:
    pq.write_table(pa.Table.from_pylist(rows), path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path = path.with_suffix(".jsonl")
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_csv(path: Path, rows: list[dict[str, Any]]) -> Path:
    path = path.with_suffix(".csv")
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(key for row in rows for key in row)))
        writer.writeheader()
        writer.writerows(rows)
    return path


Writer = Callable[[Path, list[dict[str, Any]]], Path]
WRITERS = pytest.mark.parametrize("write", [write_parquet, write_jsonl, write_csv])


def without(*names: str, **values: Any) -> list[dict[str, Any]]:
    return [{key: value for key, value in {**row, **values}.items() if key not in names} for row in ROWS]


@WRITERS
def test_texts_and_labels_come_back_as_written(write: Writer, tmp_path: Path) -> None:
    log = read_log(write(tmp_path / "log", ROWS))
    assert [{name: getattr(pair, name) for name in (*TEXTS, "label")} for pair in log.pairs] == ROWS
    assert log.unlabelled == ()
    assert {(pair.pool, pair.source, pair.family) for pair in log.pairs} == {("log", "log", "")}
    assert [pair.pair_id for pair in log.pairs] == ["row-000001", "row-000002", "row-000003", "row-000004"]
    assert not log.clusters_given


@settings(max_examples=30, deadline=None)
@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=10, max_size=10))
def test_any_text_survives_any_file(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    assume(texts[:5] != texts[5:])
    rows = [dict(zip((*TEXTS, "label"), (*texts[:5], 0), strict=True))]
    rows.append(dict(zip((*TEXTS, "label"), (*texts[5:], 1), strict=True)))
    folder = tmp_path_factory.mktemp("log")
    for write in (write_parquet, write_jsonl, write_csv):
        pairs = read_log(write(folder / "log", rows)).pairs
        assert [{name: getattr(pair, name) for name in (*TEXTS, "label")} for pair in pairs] == rows


@WRITERS
def test_rows_longer_than_a_read_block(write: Writer, tmp_path: Path) -> None:
    rows = without(context_probe="k: " + "é" * 1_100_000)
    log = read_log(write(tmp_path / "log", rows))
    assert {len(pair.context_probe) for pair in log.pairs} == {1_100_003}


@WRITERS
def test_an_unlabelled_log(write: Writer, tmp_path: Path) -> None:
    log = read_log(write(tmp_path / "log", without("label")))
    assert log.pairs == ()
    assert [row.candidate.q_probe for row in log.unlabelled] == [row["q_probe"] for row in ROWS]
    assert "4 rows: 0 labelled, 4 without label" in log.summary
    assert "3 clusters by identical cached entry, joined by identical new request, the largest of 2 rows" in log.summary


@WRITERS
def test_a_partly_labelled_log(write: Writer, tmp_path: Path) -> None:
    rows = [{**row, "label": None if number == 2 else number % 2} for number, row in enumerate(ROWS)]
    log = read_log(write(tmp_path / "log", rows))
    assert [pair.pair_id for pair in log.pairs] == ["row-000001", "row-000002", "row-000004"]
    assert [row.pair_id for row in log.unlabelled] == ["row-000003"]
    assert "4 rows: 3 labelled, 1 without label (left out)" in log.summary


@pytest.mark.parametrize("labels", [[True, False, True, None], [1.0, 0.0, 1.0, float("nan")], ["1", "0", "1.0", " "]])
def test_labels_as_other_programs_write_them(labels: list[Any], tmp_path: Path) -> None:
    rows = [{**row, "label": label} for row, label in zip(ROWS, labels, strict=True)]
    log = read_log(write_parquet(tmp_path / "log", rows))
    assert [pair.label for pair in log.pairs] == [1, 0, 1]
    assert len(log.unlabelled) == 1


@WRITERS
def test_own_ids_and_clusters(write: Writer, tmp_path: Path) -> None:
    rows = [{**row, "pair_id": 70 + number, "cluster": f"user {number // 2}"} for number, row in enumerate(ROWS)]
    log = read_log(write(tmp_path / "log", rows))
    assert [(pair.pair_id, pair.cluster) for pair in log.pairs] == [
        ("70", "user 0"),
        ("71", "user 0"),
        ("72", "user 1"),
        ("73", "user 1"),
    ]
    assert log.clusters_given
    assert "2 clusters by column cluster" in log.summary


def test_leading_zeros_of_ids_stay_in_csv(tmp_path: Path) -> None:
    rows = [{**row, "pair_id": f"00{number}"} for number, row in enumerate(ROWS)]
    assert read_log(write_csv(tmp_path / "log", rows)).pairs[1].pair_id == "001"


def test_columns_of_dates_and_dictionaries_are_text(tmp_path: Path) -> None:
    dated = without(q_probe="2024-05-01", context_probe="2024-05-01T10:00:00")[1:]
    assert read_log(write_jsonl(tmp_path / "log", dated)).pairs[0].context_probe == "2024-05-01T10:00:00"
    table = pa.Table.from_pylist(ROWS)
    place = table.column_names.index("r_cache")
    table = table.set_column(place, "r_cache", table.column("r_cache").dictionary_encode())
    pq.write_table(table, tmp_path / "log.parquet")
    assert read_log(tmp_path / "log.parquet").pairs[2].r_cache == "A Friday,\nall day."


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path: Path) -> None:
    for write in (write_csv, write_jsonl):
        path = write(tmp_path / "log", ROWS)
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
        assert len(read_log(path).pairs) == 4


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=14))
def test_clusters_are_the_closure_of_both_kinds_of_identity(keys: list[tuple[int, int, int]]) -> None:
    candidates = [
        Candidate(q_cache=f"q{q}", r_cache=str(row), context_cache=f"c{c}", q_probe=f"p{p}", context_probe="")
        for row, (q, c, p) in enumerate(keys)
    ]
    together = [[a[:2] == b[:2] or a[2] == b[2] for b in keys] for a in keys]
    for middle in range(len(keys)):  # Warshall's closure
        for first in range(len(keys)):
            for last in range(len(keys)):
                together[first][last] |= together[first][middle] and together[middle][last]
    clusters = clusters_of(candidates)
    assert [[a == b for b in clusters] for a in clusters] == together
    assert clusters[0] == "cluster-000001"


@WRITERS
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (without("q_probe"), "column 'q_probe' is missing; there are: q_cache, r_cache, context_cache"),
        (without("q_probe", q_prob="x"), r"column 'q_probe' is missing; rename 'q_prob'\? there are: q_cache"),
        (without("label", labels=1), "column 'labels' is unknown; did you mean 'label'\\?"),
        (without(cluster_id="a"), "column 'cluster_id' is unknown; did you mean 'cluster'\\?"),
        (without("label", Label=0), "column 'Label' is unknown; did you mean 'label'\\?"),
        (without(label=1), "all labels are 1; a policy needs rows with 1 and rows with 0"),
        (without(label=2), "row 1: label .?2.? is not 0"),
        (without(label="yes"), "row 1: label 'yes' is not 0"),
        (without(label=SECRET), "row 1: label of 22 characters is not 0"),
        (without(pair_id="a1"), "pair_id 'a1' is there 4 times"),
        (without(pair_id=""), "row 1: pair_id is empty"),
        (without(cluster=""), "row 1: cluster is empty"),
    ],
)
def test_bad_rows(write: Writer, rows: list[dict[str, Any]], message: str, tmp_path: Path) -> None:
    refuse(write(tmp_path / "log", rows), message)


@WRITERS
def test_an_entry_in_two_clusters_and_equal_texts_of_two_labels(write: Writer, tmp_path: Path) -> None:
    split = [{**row, "cluster": f"user {number}", "pair_id": f"p{number}"} for number, row in enumerate(ROWS)]
    refuse(
        write(tmp_path / "log", split),
        "rows 'p0' and 'p1' have the same cached entry, but clusters 'user 0' and 'user 1': a cluster that would",
    )
    other = [{**row, "r_cache": f"{number}"} for number, row in enumerate(split)]
    assert len(read_log(write(tmp_path / "log", other)).pairs) == 4
    twice = [*ROWS, {**ROWS[2], "label": 1}]
    refuse(write(tmp_path / "log", twice), "rows 'row-000003' and 'row-000005' have the same texts, but labels 0 and 1")
    assert len(read_log(write(tmp_path / "log", [*ROWS, ROWS[2], {**ROWS[2], "label": None}])).pairs) == 5


@pytest.mark.parametrize(("label", "kind"), [("yes", "string"), (True, "boolean")])
def test_json_labels_of_two_types(label: Any, kind: str, tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "log", [*ROWS[:3], {**ROWS[3], "label": label}])
    refuse(
        path, f"row 4: label is of type {kind}, and of type number in rows before; labels are 0 .reuse was wrong. or 1"
    )


@pytest.mark.parametrize("write", [write_parquet, write_jsonl])
def test_null_texts_and_other_types(write: Writer, tmp_path: Path) -> None:
    rows = [*ROWS[:2], {**ROWS[2], "context_cache": None}, ROWS[3]]
    refuse(write(tmp_path / "log", rows), 'row 3: context_cache is null; give a text ("" for none)')
    refuse(write(tmp_path / "log", without(context_cache=None)), "row 1: context_cache is null")
    refuse(write(tmp_path / "log", without(r_cache=4929)), "column 'r_cache' holds int64; give text")
    refuse(write(tmp_path / "log", without(r_cache={SECRET: 1})), "column 'r_cache' holds struct; give text")
    refuse(write(tmp_path / "log", without(pair_id=1.5)), "column 'pair_id' holds double; give text")


def test_texts_that_are_not_utf8(tmp_path: Path) -> None:
    for write in (write_csv, write_jsonl):
        path = write(tmp_path / "log", ROWS)
        path.write_bytes(path.read_bytes().replace(b"Opening", b"\xd6ffnung", 1))
        refuse(path, "UTF-?8")
    broken = pa.array([b"\xd6ffnung", b"", b"", b""]).cast(pa.binary())
    text = pa.StringArray.from_buffers(4, broken.buffers()[1], broken.buffers()[2])
    table = pa.Table.from_pylist(ROWS)
    pq.write_table(table.set_column(table.column_names.index("q_cache"), "q_cache", text), tmp_path / "log.parquet")
    refuse(tmp_path / "log.parquet", "row 1: q_cache is not UTF-8")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("log.txt", "", r"suffix '\.txt' is unknown; give a \.parquet, \.jsonl or \.csv file"),
        ("log", "", "suffix '' is unknown"),
        ("log.csv", "", "Empty CSV file"),
        ("log.csv", ",".join(TEXTS) + "\n", "holds no rows"),
        ("log.csv", ",".join(TEXTS) + f"\na,b,c,d,e\n{SECRET},b\n", "row 2 has 2 cells, not 5"),
        ("log.csv", ",".join((*TEXTS, TEXTS[0])) + "\na,b,c,d,e,f\n", "column 'q_cache' is there twice"),
        ("log.csv", "a,b\n1,2\n", "column 'q_cache' is missing"),
        ("log.csv", f"{';'.join(TEXTS)}\n{SECRET}, yes;b;c;d;e\n", "the separator seems to be ';'; save the file with"),
        ("log.csv", "\t".join(TEXTS) + "\na\tb\tc\td\te\n", "the separator seems to be a tab"),
        ("log.jsonl", "", "Empty JSON file"),
        ("log.jsonl", f'{{"q_cache": "{SECRET}"', "not a readable .jsonl file"),
        (
            "log.jsonl",
            f'{{"q_cache": {{"{SECRET}": 1}}}}\n{{"q_cache": "b"}}',
            "row 2: q_cache is of type string, and of type object in",
        ),
        ("log.jsonl", f'[{{"q_cache": "{SECRET}"}}]', "changed from object to array"),
        ("log.jsonl", '{"q_cache": "\\ud83d"}', "surrogate pair"),
        ("log.parquet", SECRET, "not a readable .parquet file"),
        ("log.parquet", "", "not a readable .parquet file"),
    ],
)
def test_bad_files(name: str, content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    refuse(tmp_path / name, message)


def test_missing_files_folders_and_empty_tables(tmp_path: Path) -> None:
    refuse(tmp_path / "none.csv", "is not there")
    (tmp_path / "folder.csv").mkdir()
    refuse(tmp_path / "folder.csv", "is a folder")
    refuse(write_parquet(tmp_path / "log", [dict.fromkeys(TEXTS, "a")]).with_name("x.jsonl"), "is not there")
    pq.write_table(pa.Table.from_pylist(ROWS).slice(0, 0), tmp_path / "empty.parquet")
    refuse(tmp_path / "empty.parquet", "holds no rows")


def refuse(path: Path, message: str) -> None:
    """The file is refused in one line that matches `message` and repeats nothing of its texts."""
    with pytest.raises(InputError, match=message.replace("(", r"\(").replace(")", r"\)")) as caught:
        read_log(path)
    said = str(caught.value)
    assert "\n" not in said
    assert SECRET not in said
    assert path.name in said
