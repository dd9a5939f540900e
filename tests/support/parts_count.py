"""An independent reading of result parts: plain Parquet, no view and no code of the package."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq


def read_rows(results: Path, table: str = "records") -> list[dict[str, Any]]:
    """All rows of all parts, in no particular order."""
    rows: list[dict[str, Any]] = []
    for part in sorted((results / table).glob("*.parquet")):
        rows += pq.ParquetFile(part).read().to_pylist()
    return rows


def per_cell(results: Path) -> Counter[tuple[str, str]]:
    """How many records each (case, arm) has."""
    return Counter((row["case_id"], row["arm"]) for row in read_rows(results))
