"""The deletion paper's figures on numerical repeats and packed refresh, as rows beside the measured views.

Source: "Budgeted KV-Cache Repair for Evolving Contexts", Table 17 (section 11) and figures stated in section 13.5. The
table prints disagreement in percent, 1 - A, excess in percentage points, and absolute differences of the NLL.
"""

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple

PAPER = "kv-cache-repair"
EXPERIMENT = "numerical-controls"


class PublishedNumeric(NamedTuple):
    """One published figure.

    Attributes:
        table: the paper's table; None for a figure the text states.
        arm: "replay" beside Re-prefill; "packed" or "custom" (the paper's own attention kernel) beside interval-wise.
        output: the output of Table 17, named as in the view `numerical_repeats`.
        metric: the column of `numerical_repeats` or `executor_probes` that it stands beside; the two ratios of the FP32
            control are told apart by their context length, 8K and 2K.
        value: the figure; None where the paper gives a range, which `low` and `high` hold.
        n: cells behind it; None where not stated.
        place: the section.
    """

    paper: str
    table: int | None
    experiment: str
    model: str
    arm: str
    output: str | None
    metric: str
    value: float | None
    low: float | None
    high: float | None
    n: int | None
    place: str


@cache
def published_numerics() -> tuple[PublishedNumeric, ...]:
    """Return every published figure, in the order of the sections."""
    text = files("cachemend.warehouse").joinpath("published_numerics.csv").read_text(encoding="utf-8")
    return tuple(_row(row) for row in csv.DictReader(text.splitlines()))


def _row(row: dict[str, str]) -> PublishedNumeric:
    return PublishedNumeric(
        paper=PAPER,
        table=int(row["table"]) if row["table"] else None,
        experiment=EXPERIMENT,
        model=row["model"],
        arm=row["arm"],
        output=row["output"] or None,
        metric=row["metric"],
        value=float(row["value"]) if row["value"] else None,
        low=float(row["low"]) if row["low"] else None,
        high=float(row["high"]) if row["high"] else None,
        n=int(row["n"]) if row["n"] else None,
        place=row["place"],
    )
