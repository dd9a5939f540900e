"""Everything but one query over the views is refused in one line, and has no effect."""

from pathlib import Path

import pyarrow as pa
import pytest

from cachemend.repair_core.errors import InputError
from cachemend.warehouse import store
from cachemend.warehouse.views import VIEWS

from support.result_rows import write_shards

REFUSED = [
    # files, in every way that reads them
    "SELECT * FROM read_csv('{secret}')",
    "SELECT * FROM read_csv_auto('{secret}')",
    "SELECT * FROM '{secret}'",
    'SELECT * FROM "{secret}"',
    "FROM read_text('{secret}')",
    "FROM READ_BLOB('{secret}')",
    "FROM read_json('{secret}')",
    "FROM read_parquet('{secret}')",
    "FROM parquet_metadata('{secret}')",
    "FROM sniff_csv('{secret}')",
    "FROM read_duckdb('{secret}')",
    "FROM glob('/etc/*')",
    "SELECT (SELECT content FROM read_text('{secret}'))",
    "SELECT 1 WHERE EXISTS (FROM '{secret}')",
    "SELECT 1 ORDER BY (SELECT count(*) FROM read_text('{secret}'))",
    "SELECT 1 LIMIT (SELECT count(*) FROM read_text('{secret}'))",
    "SELECT * FROM records, LATERAL (FROM glob('*'))",
    "SELECT 1 UNION ALL SELECT a FROM '{secret}'",
    "WITH x AS (FROM read_text('{secret}')) FROM x",
    "WITH RECURSIVE x AS (SELECT '1' UNION ALL SELECT content FROM read_text('{secret}')) FROM x",
    'WITH "{secret}" AS (SELECT 1) SELECT * FROM (WITH y AS (SELECT 2) FROM "{secret}")',
    "DESCRIBE '{secret}'",
    "SUMMARIZE '{secret}'",
    "DESCRIBE SELECT * FROM '{secret}'",
    "PIVOT (FROM '{secret}') ON a IN (1) USING count(*)",
    # links inside the results folder
    "FROM read_csv('{link}')",
    "FROM '{link}'",
    "FROM read_text('{results}/../secret.csv')",
    # the network
    "FROM 'http://127.0.0.1:9/x.csv'",
    "FROM read_parquet('https://127.0.0.1:9/x.parquet')",
    "FROM read_csv('s3://bucket/x.csv')",
    # SQL in strings, Python objects, memory addresses
    "FROM query('SELECT 1')",
    "FROM query_table('records')",
    "FROM json_execute_serialized_sql('x')",
    "FROM local_table",
    "FROM arrow_scan(1, 2, 3)",
    "FROM python_map_function(1)",
    # the system
    "FROM duckdb_settings()",
    "FROM duckdb_secrets()",
    "FROM duckdb_settings",
    "FROM pragma_version()",
    "FROM which_secret('a', 'b')",
    "FROM system.main.duckdb_databases",
    "FROM parts.definition",
    "SELECT getenv('HOME')",
    "SHOW DATABASES",
    "SHOW TABLES FROM parts",
    # writing
    "COPY (SELECT 1) TO '{out}'",
    "COPY records TO '{inside}'",
    "WITH x AS (COPY (SELECT 1) TO '{out}') FROM x",
    "WITH x AS (COPY (SELECT 1) TO '{inside}') FROM x",
    "WITH x AS (INSERT INTO records DEFAULT VALUES RETURNING *) FROM x",
    "WITH x AS (DELETE FROM records RETURNING *) FROM x",
    "WITH x AS (UPDATE records SET em = 1 RETURNING *) FROM x",
    "EXPORT DATABASE '{out}'",
    "IMPORT DATABASE '{out}'",
    "INSERT INTO records VALUES (1)",
    "UPDATE records SET em = 1",
    "DELETE FROM records",
    "TRUNCATE records",
    "MERGE INTO records USING cases ON true WHEN MATCHED THEN DELETE",
    "CREATE TABLE t AS SELECT 1",
    "CREATE TEMP VIEW v AS SELECT 1",
    "CREATE OR REPLACE VIEW records AS SELECT 1",
    "CREATE MACRO f(x) AS x",
    "CREATE SECRET (TYPE s3)",
    "DROP VIEW records",
    "ALTER VIEW records RENAME TO r",
    "COMMENT ON VIEW records IS 'x'",
    # configuration and extensions
    "ATTACH '{out}' AS other",
    "DETACH warehouse",
    "USE memory",
    "SET threads = 1",
    "SET VARIABLE x = 1",
    "RESET threads",
    "PRAGMA database_list",
    "INSTALL httpfs",
    "FORCE INSTALL httpfs",
    "LOAD httpfs",
    "UPDATE EXTENSIONS",
    "CALL pragma_version()",
    "CHECKPOINT",
    "VACUUM",
    "BEGIN",
    "PREPARE p AS SELECT 1",
    "EXECUTE p",
    # not one query
    "SELECT 1; SELECT 2",
    "SELECT 1; COPY (SELECT 1) TO '{out}'",
    "",
    "  -- nothing",
    ";",
    "EXPLAIN ANALYZE SELECT 1",
    "PIVOT records ON arm USING avg(em)",
    "SELECT $1",
    "SELECT '\udcff'",
    "SELECT " + "(" * 3000 + "1" + ")" * 3000,
]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("guard")
    results = root / "results"
    write_shards(results, range(1))
    secret = root / "secret.csv"
    secret.write_text("a\n1\n")
    (results / "link.csv").symlink_to(secret)
    return {
        "results": results,
        "secret": secret,
        "link": results / "link.csv",
        "out": root / "out",
        "inside": results / "records" / "evil.parquet",
    }


@pytest.mark.parametrize("sql", REFUSED, ids=lambda sql: repr(sql)[:60])
def test_refused_in_one_line_without_effect(places: dict[str, Path], sql: str) -> None:
    local_table = pa.table({"a": [1]})  # must not be found through the stack
    assert local_table.num_rows == 1
    for name, path in places.items():
        sql = sql.replace("{" + name + "}", str(path))
    with pytest.raises(InputError) as caught:
        store.query(places["results"], sql)
    line = str(caught.value)
    assert "\n" not in line
    assert line.startswith("SQL: ")
    assert len(line) < 400
    assert not places["out"].exists()
    assert not places["inside"].exists()
    assert store.query(places["results"], "SELECT count(*) AS n FROM records").to_pylist() == [{"n": 6}]


@pytest.mark.parametrize(
    ("sql", "hints"),
    [
        ("SELECT * FROM recrods", ["'recrods'", "did you mean 'records'"]),
        ("SELECT * FROM main.sweep", ["main.sweep", "niah_sweep"]),
        ("SELECT ems FROM records", ['"ems"', '"em"']),
        ("SELECT count(*) FROM records GROUP BY modell", ['"modell"', '"model"']),
        ("SELEC 1", ['"SELEC"']),
        ("SELECT em FROM records WHERE", ["syntax error"]),
        ("SELECT table FROM published", ["syntax error", '"table"']),
        ("SELECT avgg(em) FROM records", ["avgg", '"avg"']),
        ("SELECT 'x'::INTEGER", ["'x'"]),
        ("SELECT * FROM records WHERE em = 'right'", ["'right'"]),
        ("DROP VIEW records", ["DROP is not allowed"]),
        ("SELECT 1; DROP VIEW records", ["second statement"]),
        ("FROM read_csv('x')", ["read_csv", "SHOW TABLES"]),
    ],
)
def test_errors_say_what_is_wrong(places: dict[str, Path], sql: str, hints: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        store.query(places["results"], sql)
    for hint in hints:
        assert hint in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT count(*) AS n FROM records", 1),
        ("from Records", 6),
        ("SELECT * FROM main.records WHERE em = 1;", 6),
        ("WITH t AS (FROM niah_sweep), u AS (FROM t) SELECT allocator, sum(n) FROM u GROUP BY ALL", 5),
        ("WITH RECURSIVE t(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM t WHERE i < 4) FROM t", 4),
        ("SELECT arm, unnest(positions) FROM records WHERE budget = 5", 3),
        ("SELECT * FROM range(3) r(i), unnest([1, 2])", 6),
        ("SELECT i.start FROM records, unnest(intervals) u(i)", 4),
        ("VALUES (1), (2)", 2),
        ("DESCRIBE records", 57),
        ("SUMMARIZE niah_sweep", 28),
        ("SHOW TABLES", len(VIEWS)),
        ("PIVOT records ON arm IN ('shift', 'replay') USING avg(em) GROUP BY case_id", 1),
        ("SELECT arm, m.em_percent, p.value FROM niah_sweep m JOIN published p USING (experiment, arm)", 30),
        ("SELECT DISTINCT published.table FROM published WHERE experiment = 'erasing-niah'", 5),
        ("SELECT 1 UNION ALL SELECT 2", 2),
        ("SELECT table_name FROM information_schema.tables WHERE table_schema = 'main'", len(VIEWS)),
        ("FROM parts.records", 6),
        ("SELECT j.key FROM json_each('{\"a\": 1}') j", 1),
    ],
)
def test_queries_that_run(places: dict[str, Path], sql: str, rows: int) -> None:
    assert store.query(places["results"], sql).num_rows == rows


def test_sums_of_integers_are_integers(places: dict[str, Path]) -> None:
    sql = f"SELECT sum(n) AS n, sum(n) * {10**30} AS big FROM niah_sweep"
    table = store.query(places["results"], sql)
    assert table.schema.field("n").type == pa.int64()
    assert table["big"].to_pylist()[0] == 6 * 10**30


def test_wrong_sql_is_named_before_missing_results(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="syntax error"):
        store.query(tmp_path, "SELEC 1")
