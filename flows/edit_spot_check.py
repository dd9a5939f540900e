"""The spot check of a run: a sampled share of its repairs beside the prefill of the same edited context."""

from collections.abc import Collection
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from cachemend.repair_core.spot_checking import sampled
from cachemend.tasks.edit_arms import REFERENCES, deployable
from cachemend.tasks.edit_retained import edit_rows
from cachemend.tasks.edit_work import EditIdentity


class SpotChecked(NamedTuple):
    """What the sampled repairs of one cohort are like.

    Attributes:
        split: of the cohort.
        n, n_of: repairs sampled, and those there are.
        tv, worst_tv: mean and largest total variation of the first answer token's distribution between the repaired
            and the re-prefilled cache, 0 to 1; NaN where none is sampled.
        margin, worst_margin: mean and largest absolute difference of the two answers' margins, nats per token.
        worst: the repair with the largest total variation, "CASE ARM".
    """

    split: str
    n: int
    n_of: int
    tv: float
    worst_tv: float
    margin: float
    worst_margin: float
    worst: str

    @property
    def line(self) -> str:
        """One line for the terminal."""
        head = f"spot check, {self.split}: {self.n} of {self.n_of} repairs sampled"
        if not self.n:
            return head
        return (
            f"{head}; TV to a re-prefill {self.tv:.3f} on average, at most {self.worst_tv:.3f} ({self.worst}); "
            f"margin off by {self.margin:.3f} nats per token on average, at most {self.worst_margin:.3f}"
        )


def spot_checked(
    results: Path,
    identity: EditIdentity,
    *,
    digests: Collection[str],
    arms: Collection[str],
    fraction: float,
    seed: int,
) -> SpotChecked | None:
    """Sample repairs of retained items that could have been deployed; None where there are none.

    Every item has a prefill of its edited context, which no such repair reads, and its records hold how far they are
    from it. So nothing is computed again here: the sample says what a service would learn that re-prefills so many.

    Args:
        results: results folder.
        identity: what the records share.
        digests: the cases the run covers.
        arms: names of its arms.
        fraction: share of the repairs, 0 to 1.
        seed: of the draw, which is by case and arm.
    """
    columns = ("case_digest", "case_id", "arm", "policy", "split", "tv_to_clean", "margin", "margin_clean")
    rows = [
        row
        for row in edit_rows(results, identity, columns, "operator = 'recompute' AND outcome = 'ok' AND retained")
        if row["case_digest"] in digests and row["arm"] in arms and _repairs(row["policy"])
    ]
    if not rows:
        return None
    chosen = [row for row in rows if sampled(_name(row), fraction, seed)]
    if not chosen:
        none = float("nan")
        return SpotChecked(rows[0]["split"], 0, len(rows), none, none, none, none, "")
    off = [abs(row["margin"] - row["margin_clean"]) for row in chosen]
    worst = max(chosen, key=lambda row: (row["tv_to_clean"], _name(row)))
    return SpotChecked(
        split=rows[0]["split"],
        n=len(chosen),
        n_of=len(rows),
        tv=fmean(row["tv_to_clean"] for row in chosen),
        worst_tv=worst["tv_to_clean"],
        margin=fmean(off),
        worst_margin=max(off),
        worst=_name(worst),
    )


def _repairs(policy: str) -> bool:
    return policy not in REFERENCES and deployable(policy)


def _name(row: dict[str, Any]) -> str:
    return f"{row['case_id']} {row['arm']}"
