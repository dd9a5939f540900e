"""When a cell of the edit study is evidence: enough items of enough wordings, and controls that fail.

Recovery by random positions, or by the edit span alone, means that the item did not need what a policy recomputes;
then no policy's recovery shows anything about the policy.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

MIN_TOKENS = 2000
MIN_RETAINED = 40
MIN_FAMILIES = 3
MAX_CONTROL = 0.15
PRIMARY_K = 32


class Check(NamedTuple):
    """One requirement, what was found, and whether that meets it; `reason` says what is wrong where it does not."""

    name: str
    wanted: str
    found: str
    met: bool
    reason: str


def judged_k(stored: Iterable[int]) -> int:
    """Return the K that a cell is judged at: 32, or the largest one where Random was run at others only.

    Args:
        stored: every K at which Random was recomputed in the cell, by whichever run.
    """
    found = set(stored)
    return PRIMARY_K if PRIMARY_K in found else max(found, default=PRIMARY_K)


def evidence_checks(
    shortest: int | None,
    retained: int,
    families: int,
    random: float | None,
    span: float | None,
    k: int = PRIMARY_K,
) -> tuple[Check, ...]:
    """Check a derived cell.

    Args:
        shortest: tokens of the shortest retained context; None without any.
        retained: retained items.
        families: wordings among them.
        random: mean MR of Random at `k`; None where it was not run.
        span: mean MR of refreshing the edit span alone; None where it was not run.
        k: the K that the cell is judged at, as `judged_k` gives it.
    """
    tokens = "no context" if shortest is None else f"{shortest:,} tokens"
    return (
        Check(
            "shortest context",
            f"at least {MIN_TOKENS:,} tokens",
            tokens,
            shortest is not None and shortest >= MIN_TOKENS,
            f"the shortest context has {tokens}, {MIN_TOKENS:,} are wanted",
        ),
        Check(
            "retained items",
            f"at least {MIN_RETAINED}",
            str(retained),
            retained >= MIN_RETAINED,
            f"retained items: {retained} of the {MIN_RETAINED} wanted",
        ),
        Check(
            "wordings",
            f"at least {MIN_FAMILIES}",
            str(families),
            families >= MIN_FAMILIES,
            f"wordings: {families} of the {MIN_FAMILIES} wanted",
        ),
        _control(f"Random at K = {k}", random),
        _control("the span alone", span),
    )


def shortfall(checks: Sequence[Check]) -> str | None:
    """Return why a cell shows nothing, as the column `evidence` holds it; None where every check is met."""
    return "; ".join(check.reason for check in checks if not check.met) or None


def _control(who: str, value: float | None) -> Check:
    wanted = f"at most {MAX_CONTROL}"
    if value is None:
        return Check(f"MR of {who}", wanted, "not run", False, f"{who} was not run")
    met = value <= MAX_CONTROL
    return Check(f"MR of {who}", wanted, f"{value:.2f}", met, f"MR of {who} is {value:.2f}, {wanted} is wanted")
