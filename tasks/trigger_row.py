"""What the parts of the trigger study share: which edits they look at, and the columns of a row."""

from typing import Any

from cachemend.tasks.edit_observations import Observed

RELEVANT = ("direct", "derived")
_COLUMNS = (
    *("condition", "share", "n", "n_groups", "rate", "low", "high"),
    *("rho", "rho_p", "r2", "failures", "seconds"),
)


def references(observed: Observed, policy: str) -> dict[str, dict[str, Any]]:
    """The answered records of a reference at distance 0, by case digest; no item is left out for its retention."""
    return {row["case_digest"]: row for row in observed.ok if row["policy"] == policy and row["distance"] == 0}


def trigger_row(kind: str, subject: str, **known: Any) -> dict[str, Any]:
    """Columns of `edit_trigger_rows`, without identity; NULL where nothing is `known`."""
    return {"kind": kind, "subject": subject, **dict.fromkeys(_COLUMNS), **known}
