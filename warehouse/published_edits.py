"""The edit paper's figures, as rows that join to the measured views on policy, K, condition and distance.

Source: "Contiguity, Not Importance: Budgeted Repair of Stale KV Caches After Document Edits", Tables 2-4, Figures 2
and 3 and the sections named in `place`. Only figures that the running text or a caption states are listed. The bodies
of Tables 1-4 are not part of the text these were taken from: the remaining cells of Table 2 (structural, random and
most of attention, cacheblend and causal-oracle, with every Flip and interval), of Table 3 per model and distance, and
of Table 4 per model are therefore left out, as are the points of Figure 3 between K = 8 and 64.
"""

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple

PAPER = "contiguity-edit-repair"
EXPERIMENT = "edit-repair"
_MODELS = {
    "L": "meta-llama/Llama-3.1-8B-Instruct",
    "Q": "Qwen/Qwen3-8B",
    "M": "mistralai/Mistral-7B-Instruct-v0.3",
}


class PublishedEdit(NamedTuple):
    """One published figure.

    Attributes:
        table: the paper's table; None for a figure or the text alone.
        place: heading of the section that states it.
        model: the model, or several joined by " + " where the paper states one range for them.
        policy: a policy or diagnostic of this project; "rivals" (every deployable policy but edit-local), "other
            rules" or "all" where the paper sums up several.
        distance, k, length: None where the figure is over several, or has none.
        value: the figure; None where the paper gives a range or a bound, which `low` and `high` hold.
        n: items or timed runs behind it; None where not stated.
    """

    paper: str
    table: int | None
    experiment: str
    model: str
    split: str | None
    condition: str | None
    distance: int | None
    policy: str
    k: int | None
    operator: str
    arm: str
    length: int | None
    metric: str
    value: float | None
    low: float | None
    high: float | None
    n: int | None
    place: str


@cache
def published_edits() -> tuple[PublishedEdit, ...]:
    """Return every published figure, in the order of the tables."""
    text = files("cachemend.warehouse").joinpath("published_edits.csv").read_text(encoding="utf-8")
    return tuple(_row(row) for row in csv.DictReader(text.splitlines()))


def _row(row: dict[str, str]) -> PublishedEdit:
    k, operator = _whole(row["k"]), row["operator"]
    arm = row["policy"] if k is None else f"{row['policy']}@{k}"
    return PublishedEdit(
        paper=PAPER,
        table=_whole(row["table"]),
        experiment=EXPERIMENT,
        model=" + ".join(_MODELS[letter] for letter in row["models"]),
        split=row["split"] or None,
        condition=row["condition"] or None,
        distance=_whole(row["distance"]),
        policy=row["policy"],
        k=k,
        operator=operator,
        arm=f"transplant:{arm}" if operator == "transplant" else arm,
        length=_whole(row["length"]),
        metric=row["metric"],
        value=_number(row["value"]),
        low=_number(row["low"]),
        high=_number(row["high"]),
        n=_whole(row["n"]),
        place=row["place"],
    )


def _whole(text: str) -> int | None:
    return int(text) if text else None


def _number(text: str) -> float | None:
    return float(text) if text else None
