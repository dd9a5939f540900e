"""The response-reuse paper's figures, as rows that join to the measured views on method and setting.

Source: "Beyond Query Similarity: Safety-Conditioned Cache Routing for LLM Response Reuse", Tables 1-4, 7, 8 and 10-14
and the running text. Rates are fractions. The body of Table 1 (a) is not part of the text these were taken from: of the
router, GPTCache and vCache only what other tables and the text state is listed.
"""

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple

PAPER = "safecache-routing"
EXPERIMENT = "response-routing"


class PublishedRouting(NamedTuple):
    """One published figure.

    Attributes:
        table: the paper's table; None for the text alone.
        place: heading of the section that states it.
        pool: the pool of this project that rebuilds the paper's pairs.
        method, setting: as in `routing_points`; None where the figure is of no method.
        family: kind of change, Table 12.
        ablation: as in `routing_ablation`, Table 2.
        signal: as in `signal_ranking`, Table 14.
        verifier: whose verdicts, Tables 8 and 13.
        metric: a column of the view it stands beside.
        value: fractions, counts, or p-values.
        n: what it is over; None where not stated.
    """

    paper: str
    table: int | None
    experiment: str
    place: str
    pool: str
    method: str | None
    setting: str | None
    family: str | None
    ablation: str | None
    signal: str | None
    verifier: str | None
    metric: str
    value: float
    n: int | None


@cache
def published_routing() -> tuple[PublishedRouting, ...]:
    """Return every published figure, in the order of the tables."""
    text = files("cachemend.warehouse").joinpath("published_routing.csv").read_text(encoding="utf-8")
    return tuple(_row(row) for row in csv.DictReader(text.splitlines()))


def _row(row: dict[str, str]) -> PublishedRouting:
    told = {name: row[name] or None for name in ("method", "setting", "family", "ablation", "signal", "verifier")}
    return PublishedRouting(
        paper=PAPER,
        table=int(row["table"]) if row["table"] else None,
        experiment=EXPERIMENT,
        place=row["place"],
        pool="stress" if row["table"] == "4" else "reconstruction",
        metric=row["metric"],
        value=float(row["value"]),
        n=int(row["n"]) if row["n"] else None,
        **told,
    )
