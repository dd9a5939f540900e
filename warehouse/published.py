"""The papers' own figures, as rows that join to the measured views.

Source: "Budgeted KV-Cache Repair for Evolving Contexts", Tables 2-6, the five-model Erasing-NIAH sweep over 96
cases. Allocators and models carry this project's names; references have no budget.
"""

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from cachemend.repair_core.arms import Arm

EXPERIMENT = "erasing-niah"
NIAH_CASES = 96


class Published(NamedTuple):
    """One published figure; `value` is in the metric's unit, over `n` cases."""

    paper: str
    table: int
    experiment: str
    model: str
    allocator: str
    budget: float | None
    arm: str
    metric: str
    value: float
    n: int


@cache
def published() -> tuple[Published, ...]:
    """Return every published figure, in the order of the tables."""
    text = files("cachemend.warehouse").joinpath("published.csv").read_text(encoding="utf-8")
    return tuple(_row(row) for row in csv.DictReader(text.splitlines()))


def _row(row: dict[str, str]) -> Published:
    budget = float(row["budget"]) if row["budget"] else None
    return Published(
        paper="kv-cache-repair",
        table=int(row["table"]),
        experiment=EXPERIMENT,
        model=row["model"],
        allocator=row["allocator"],
        budget=budget,
        arm=Arm(allocator=row["allocator"], budget=budget).name,
        metric="em_percent",
        value=float(row["value"]),
        n=NIAH_CASES,
    )
