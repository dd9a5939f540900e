"""Why a request was decided as it was: one sentence with the values that decided."""

from math import inf

from cachemend.calibration.routing.policy import Thresholds
from cachemend.calibration.routing.regions import REUSE, VERIFY


def reason(action: int, granted: bool, similarity: float, d: float, u: float, h: bool, limits: Thresholds) -> str:
    """Say why one candidate with conditions on both sides was reused, verified or regenerated.

    Args:
        action: of `route`, before the budget.
        granted: whether the verifier budget had a call.
        similarity, d, u, h: its scores.
        limits: the policy.

    Returns:
        a sentence that holds numbers only, nothing of any text.
    """
    met, missed = _compared(similarity, d, u, limits.tau_r, limits.delta_r, limits.upsilon_r)
    if action == REUSE:
        return f"reused: {', '.join(met)}, no conflict"
    no_reuse = ["a conflict"] * h + missed if limits.tau_r < inf else ["the policy reuses nothing unverified"]
    tau = limits.tau_v_conflict if h else limits.tau_v
    met, missed = _compared(similarity, d, u, tau, limits.delta_v, limits.upsilon_v)
    if action == VERIFY:
        verb = "to be verified" if granted else "regenerated, as the verifier budget is used up"
        return f"{verb}: not reused directly ({', '.join(no_reuse)}); {', '.join(met)}"
    no_verification = missed if tau < inf else ["the policy verifies no such request"]
    return f"regenerated: not reused directly ({', '.join(no_reuse)}); not verified ({', '.join(no_verification)})"


def _compared(
    similarity: float, d: float, u: float, tau: float, delta: float, upsilon: float
) -> tuple[list[str], list[str]]:
    """The comparisons that hold and those that do not."""
    met: list[str] = []
    missed: list[str] = []
    for name, value, limit, holds, sign, opposite in (
        ("similarity", similarity, tau, similarity >= tau, ">=", "<"),
        ("risk", d, delta, d <= delta, "<=", ">"),
        ("uncertainty", u, upsilon, u <= upsilon, "<=", ">"),
    ):
        # All digits where three decimals would make "0.950 < 0.95" of it.
        shown = f"{value:.3f}" if holds or f"{value:.3f}" != f"{limit:.3f}" else repr(value)
        (met if holds else missed).append(f"{name} {shown} {sign if holds else opposite} {limit:g}")
    return met, missed
