"""Policies against each other on common items, Holm within each family (edit paper, "Pre-specified ... evaluation")."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

from cachemend.calibration.contrasts import PairContrast, chosen_pairs
from cachemend.tasks.edit_observations import Cell, Observed

ORACLES = ("causal-oracle", "causal-oracle-screened")
REFERENCE = "edit-local"
RIVALS = ("structural", "attention", "cacheblend", "random")
OURS = ("edit-local-boundary", "sur", "edit-local-sur", "edit-to-carrier", "two-stage")
_BANDS = {0.05: "05", 0.01: "01", 0.10: "10"}


def contrast_rows(observed: Observed, primary_k: int) -> list[dict[str, Any]]:
    """Return the columns of `edit_contrast_rows`, without identity, at the primary K.

    One family holds all 15 pairs of the edit paper's six policies where the answer is adjacent, and the four pairs of
    edit-local with its rivals at each distance; the rules the paper does not have are a family of their own, each
    against edit-local. The sixth policy is one causal oracle. A policy that was not run leaves its pairs out.
    """
    rows: list[dict[str, Any]] = []
    for cell in observed.cells():
        if cell[2] is not None or cell[0] == "irrelevant":
            continue
        values = _by_policy(observed, cell, primary_k)
        known = [policy for policy in (REFERENCE, *RIVALS) if policy in values]
        if cell[1] == 0:
            pairs = list(combinations([*known, *_oracle(values, known)], 2))
        else:
            pairs = [(REFERENCE, rival) for rival in known if REFERENCE in known and rival != REFERENCE]
        ours = [(policy, REFERENCE) for policy in OURS if {policy, REFERENCE} <= values.keys()]
        for family in (pairs, ours):
            rows += [_row(cell, found, primary_k) for found in _family(values, family)]
    return rows


def _by_policy(observed: Observed, cell: Cell, primary_k: int) -> dict[str, dict[str, float]]:
    """Margin recovery by policy and case, at the primary K or the policy's own length."""
    out: dict[str, dict[str, float]] = {}
    for row in observed.retained(cell):
        if row["operator"] == "recompute" and row["k"] in (None, primary_k):
            out.setdefault(row["policy"], {})[row["case_digest"]] = row["margin_recovery"]
    return out


def _oracle(values: dict[str, dict[str, float]], known: Sequence[str]) -> list[str]:
    """The oracle of the family: the exhaustive one if it has every item that the others share, else the screened."""
    common = _common(values, known)
    exhaustive, screened = ORACLES
    order = ORACLES if common <= values.get(exhaustive, {}).keys() else (screened, exhaustive)
    return [name for name in order if common & values.get(name, {}).keys()][:1]


def _common(values: dict[str, dict[str, float]], names: Sequence[str]) -> set[str]:
    """The cases that all of these policies have."""
    return set.intersection(*(set(values[name]) for name in names)) if names else set()


def _family(values: dict[str, dict[str, float]], pairs: Sequence[tuple[str, str]]) -> list[PairContrast]:
    names = list(dict.fromkeys(name for pair in pairs for name in pair))
    common = sorted(_common(values, names))
    if not common:
        return []
    return chosen_pairs({name: [values[name][case] for case in common] for name in names}, pairs)


def _row(cell: Cell, found: PairContrast, primary_k: int) -> dict[str, Any]:
    contrast = found.contrast
    tallies = {
        f"{outcome}_{_BANDS[tally.band]}": getattr(tally, outcome)
        for tally in contrast.tallies
        for outcome in ("wins", "ties", "losses")
    }
    return {
        "condition": cell[0],
        "distance": cell[1],
        "family": None,
        "policy_a": found.a,
        "policy_b": found.b,
        "k": primary_k,
        "n": contrast.n,
        "difference": contrast.difference,
        "low": contrast.low,
        "high": contrast.high,
        "p": contrast.p,
        "p_holm": found.p_holm,
        "family_size": found.family_size,
        **tallies,
    }
