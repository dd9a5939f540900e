"""Reports of small result folders, read back."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from cachemend.repair_core.arms import sweep_arms
from cachemend.warehouse.report import write_report

from support.html_page import Page
from support.report_rows import Setup, cases, failed, write_results

FEW = sweep_arms(("sur", "dense-tokens"), (5.0,))


def spoiled(row: dict[str, Any]) -> dict[str, Any] | None:
    """One arm runs out of memory, one was never recorded."""
    if row["case_id"] == "first-deleted-600-004" and row["allocator"] == "random-units":
        return failed(row, "out_of_memory", "CUDA out of memory: tried to allocate 2 GiB")
    if row["case_id"] == "first-deleted-300-003" and row["arm"] == "bm25-units@20":
        return None
    return row


def read(path: Path) -> Page:
    """Parse a page."""
    return Page(path.read_text(encoding="utf-8"))


def small(folder: Path, **changes: Any) -> Page:
    """Write six cases under a few arms, with changes to the setup, and return their report."""
    write_results(folder, replace(Setup(cases=cases(6), arms=FEW), **changes))
    return read(write_report(folder))


def raw_rows(folder: Path) -> list[dict[str, Any]]:
    """Every row of every part, read without the views."""
    return [row for path in (folder / "records").glob("*.parquet") for row in pq.ParquetFile(path).read().to_pylist()]


def figure(page: Page, index: int) -> dict[str, Any]:
    """The Plotly figure at a position of the page."""
    texts = [text for attrs, text in page.scripts if attrs.get("type") == "application/json"]
    found: dict[str, Any] = json.loads(texts[index])
    return found


def spoiled_results(folder: Path) -> Path:
    """A folder with all arms, three lengths, a control stratum, failures and a missing row."""
    write_results(folder, Setup(cases=cases(24, 6), change=spoiled))
    return folder
