"""The published figures: complete, possible counts, and joinable to what was measured."""

import re
from decimal import ROUND_HALF_UP, Decimal
from importlib.resources import files
from pathlib import Path

import pytest

from cachemend.warehouse import store
from cachemend.warehouse.parts import write_part
from cachemend.warehouse.published import NIAH_CASES, Published, published

from support.result_rows import REFERENCES, record

MODELS = {
    2: "Qwen/Qwen3-8B",
    3: "Qwen/Qwen3-30B-A3B",
    4: "meta-llama/Llama-3.3-70B-Instruct",
    5: "zai-org/GLM-4.5-Air",
    6: "Qwen/Qwen3-235B-A22B-Instruct-2507",
}
ALLOCATORS = [
    "sur",
    "dense-tokens",
    "max-relevance-window",
    "bm25-units",
    "random-units",
    "prophetkv",
    "infoflow",
    "cache-craft",
    "cacheblend",
    "a3",
    "legolink",
    "cachetune",
    "speccache",
    "clean-state-oracle",
]
PAPER = Path(__file__).resolve().parents[2] / "../shared/papers/kv-cache-repair.txt"


def test_every_arm_of_every_model_once() -> None:
    arms = {(name, None) for name in REFERENCES}
    arms |= {(name, budget) for name in ALLOCATORS for budget in (2.0, 5.0, 10.0, 20.0, 40.0, 80.0)}
    expected = {(table, model, *arm) for table, model in MODELS.items() for arm in arms}
    rows = [(row.table, row.model, row.allocator, row.budget) for row in published()]
    assert len(rows) == len(set(rows)) == 440
    assert set(rows) == expected


def test_every_percentage_is_a_count_of_96() -> None:
    text = files("cachemend.warehouse").joinpath("published.csv").read_text()
    values = [line.rsplit(",", 1)[1] for line in text.splitlines()[1:]]
    assert len(values) == len(published())
    for value, row in zip(values, published(), strict=True):
        count = round(row.value * NIAH_CASES / 100)
        exact = Decimal(100 * count) / NIAH_CASES
        assert str(exact.quantize(Decimal("0.01"), ROUND_HALF_UP)) == value
        assert 0 <= count <= NIAH_CASES


@pytest.mark.parametrize(
    ("model", "arm", "value"),
    [
        ("Qwen/Qwen3-8B", "sur@5", 98.96),
        ("meta-llama/Llama-3.3-70B-Instruct", "sur@10", 100.0),
        ("meta-llama/Llama-3.3-70B-Instruct", "infoflow@5", 100.0),
        ("zai-org/GLM-4.5-Air", "sur@2", 100.0),
        ("Qwen/Qwen3-235B-A22B-Instruct-2507", "bm25-units@2", 98.96),
        ("Qwen/Qwen3-235B-A22B-Instruct-2507", "sur@2", 97.92),
        ("Qwen/Qwen3-30B-A3B", "dirty", 1.04),
    ],
)
def test_values_the_text_of_the_paper_repeats(model: str, arm: str, value: float) -> None:
    assert [row.value for row in published() if (row.model, row.arm) == (model, arm)] == [value]


@pytest.mark.skipif(not PAPER.exists(), reason="the paper's text is not here")
def test_each_table_holds_the_papers_numbers_in_order() -> None:
    text = PAPER.read_text()
    for table in MODELS:
        start = text.index(f"Table {table}: ")
        end = text.index("8.2 Natural-QA") if table == 6 else text.index(f"Table {table + 1}: ", start)
        rows = text[text.index("Method Reference", start) : end]
        numbers = [float(number) for number in re.findall(r"\b\d+\.\d\d\b", rows)]
        assert numbers == [row.value for row in published() if row.table == table]


def test_view_holds_the_same_rows(tmp_path: Path) -> None:
    write_part(tmp_path, "records", [record()])
    # The view holds other figures, too; they are checked where they belong.
    columns = ", ".join(f'"{name}"' for name in Published._fields)
    found = store.query(tmp_path, f"SELECT {columns} FROM published WHERE metric = 'em_percent'")
    rows = [tuple(row.values()) for row in found.to_pylist()]
    assert sorted(rows, key=repr) == sorted((tuple(row) for row in published()), key=repr)


def test_one_join_shows_paper_and_measurement(tmp_path: Path) -> None:
    arms = [("shift", None), ("sur", 5.0)]
    write_part(tmp_path, "records", [record("case-0", n, b, model="Qwen/Qwen3-8B") for n, b in arms])
    rows = store.query(
        tmp_path,
        "SELECT arm, m.em_percent AS measured, p.value AS published "
        "FROM niah_sweep m JOIN published p USING (experiment, model, arm) ORDER BY arm",
    ).to_pylist()
    assert rows == [
        {"arm": "shift", "measured": 100.0, "published": 0.0},
        {"arm": "sur@5", "measured": 100.0, "published": 98.96},
    ]
