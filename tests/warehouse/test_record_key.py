"""What identifies a record, and what does not."""

import numpy as np
import pytest

from cachemend.warehouse.schemas import KEY, TABLES, RowError, record_key

from support.result_rows import record

IDENTITY = {name: record()[name] for name in KEY}


def test_key_is_pinned() -> None:
    # A key that changes makes every stored result invisible to a resumed run.
    assert record_key(IDENTITY) == "e03352b2bd217a056d0834dedfae486e4b37401f6bfb91e94d1622ba589e62e7"


def test_whole_row_has_the_key_of_its_identity() -> None:
    assert record_key(record()) == record_key(IDENTITY)


@pytest.mark.parametrize("budget", [5, np.float64(5), np.int64(5)])
def test_budget_is_a_number_not_its_spelling(budget: object) -> None:
    assert record_key({**IDENTITY, "budget": budget}) == record_key(IDENTITY)
    assert record_key({**IDENTITY, "budget": -0.0}) == record_key({**IDENTITY, "budget": 0})


@pytest.mark.parametrize("name", KEY)
def test_each_identity_column_counts(name: str) -> None:
    other = {"budget": 10.0, "engine_version": 2}.get(name, "another")
    assert record_key({**IDENTITY, name: other}) != record_key(IDENTITY)


@pytest.mark.parametrize("name", ["run_id", "worker", "recorded_at", "model", "case_id", "em"])
def test_circumstances_do_not_count(name: str) -> None:
    assert record_key({**record(), name: "another"}) == record_key(IDENTITY)


def test_auxiliary_counts_and_may_be_none() -> None:
    keys = {record_key({**IDENTITY, "auxiliary": value}) for value in (None, "target", "fingerprint")}
    assert len(keys) == 3


def test_references_have_no_budget() -> None:
    assert record_key({**IDENTITY, "budget": None}) != record_key({**IDENTITY, "budget": 0})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("budget", "5"),
        ("budget", True),
        ("budget", float("nan")),
        ("engine_version", 1.0),
        ("engine_version", True),
        ("dtype", None),
        ("experiment", 3),
    ],
)
def test_wrong_types_are_named(name: str, value: object) -> None:
    with pytest.raises(RowError, match=f"'{name}'.*{value!r}"):
        record_key({**IDENTITY, name: value})


def test_missing_column_is_named() -> None:
    with pytest.raises(RowError, match="'dtype' is missing"):
        record_key({name: value for name, value in IDENTITY.items() if name != "dtype"})


def test_every_column_says_what_it_means() -> None:
    for table in TABLES.values():
        names = [column.name for column in table.columns]
        assert len(set(names)) == len(names)
        for column, field in zip(table.columns, table.schema, strict=True):
            assert field.metadata[b"meaning"].decode() == column.meaning
            assert column.meaning
            assert "\n" not in column.meaning
            assert field.nullable == column.nullable
    assert set(KEY) <= {column.name for column in TABLES["records"].columns}
