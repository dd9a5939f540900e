"""The deletion paper's execution times, as rows beside the measured ones.

Source: "Budgeted KV-Cache Repair for Evolving Contexts", Tables 18-20 (sections 13.3 and 13.4): one Qwen3-8B checkpoint
on an H100 in BF16. Executors and backends carry the names of those here that do the same; they are other code, and
`software` is what the paper ran it with. "triton" stands for the paper's custom kernel with Torch writes,
"triton-fused" for the one with the indexed scatter.
"""

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple

PAPER = "kv-cache-repair"
EXPERIMENT = "execution-bench"


class PublishedExecution(NamedTuple):
    """One published time.

    Attributes:
        table: the paper's table.
        length, n_intervals: N and R; None in Table 20, whose four inputs have 1,319 to 2,769 tokens.
        method: Table 20: repair, replay or re-prefill.
        executor, attention: as in the timing views.
        budget: percent, Table 20.
        metric: refresh_ms, attention_us or recovery_ms.
        value: a median; in Table 20 the mean over four inputs.
        n: timed runs behind it; in Table 20 inputs, of five runs each.
        hardware, dtype, software: what it was measured on and with.
    """

    paper: str
    table: int
    experiment: str
    model: str
    length: int | None
    n_intervals: int | None
    method: str | None
    executor: str
    attention: str
    budget: float | None
    metric: str
    value: float
    n: int
    hardware: str
    dtype: str
    software: str


@cache
def published_execution() -> tuple[PublishedExecution, ...]:
    """Return every published time, in the order of the tables."""
    text = files("cachemend.warehouse").joinpath("published_execution.csv").read_text(encoding="utf-8")
    return tuple(_row(row) for row in csv.DictReader(text.splitlines()))


def _row(row: dict[str, str]) -> PublishedExecution:
    return PublishedExecution(
        paper=PAPER,
        table=int(row["table"]),
        experiment=EXPERIMENT,
        model="Qwen/Qwen3-8B",
        length=int(row["length"]) if row["length"] else None,
        n_intervals=int(row["n_intervals"]) if row["n_intervals"] else None,
        method=row["method"] or None,
        executor=row["executor"],
        attention=row["attention"],
        budget=float(row["budget"]) if row["budget"] else None,
        metric=row["metric"],
        value=float(row["value"]),
        n=int(row["n"]),
        hardware="NVIDIA H100 80GB HBM3",
        dtype="bfloat16",
        software="the paper's own executors on PyTorch 2.9.1, Transformers 4.57.6, Triton 3.5.1, CUDA 12.9",
    )
