"""What the comparisons with the router's oracles share: cases, and a check that a planted fault is noticed."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cachemend.calibration.conditions.extracting import Condition
from cachemend.calibration.routing import PolicyGrid, RoutingScores, Thresholds

from oracles.routing_policy import NO_DIRECT, NO_VERIFY, Candidate, Policy

QUICK = settings(max_examples=30, deadline=None)
_SEARCH = settings(
    max_examples=600,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    report_multiple_bugs=False,
)

# Words that differ in case, script and marks; parts of records that are empty, blank or half a surrogate pair.
WORDS = ["order", "Order", "status", "is", "#w12", "a/b", "7:15", "é", "İ", "你好", "x.y", "no", "on", "\ud800"]
PARTS = st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join) | st.sampled_from(["", "  ", "order  is ", "!"])
RECORDS = st.builds(Condition, *[PARTS] * 4)

# Levels that scores and thresholds share: equal values, which decide at the edges, are frequent.
LEVELS = st.sampled_from([0.2, 0.4, 0.6, 0.8, 1.0])
OUTPUTS = st.sampled_from(["VALID", "VALID", "INVALID", " VALID", "UNCERTAIN", None])
CANDIDATES = st.builds(
    Candidate,
    LEVELS,
    LEVELS,
    LEVELS,
    st.booleans(),
    st.booleans(),
    OUTPUTS,
    LEVELS,
    st.sampled_from([False] * 9 + [True]),
)
RUNS = st.lists(CANDIDATES, min_size=2, max_size=12)
BUDGETS = st.sampled_from([0.0, 0.16, 0.29, 0.3, 0.5, 0.57, 1.0])
WINDOWS = st.none() | st.integers(1, 9)

# Two or three values on every axis, equal to those of the scores: many policies do the same, and ties decide.
SMALL = PolicyGrid(
    tau_r=(0.6, 0.8),
    delta_r=(0.2, 0.4),
    upsilon_r=(0.4, 0.8),
    tau_v=(0.4, 0.6),
    tau_v_conflict=(0.6, 0.8),
    delta_v=(0.4, 1.0),
    upsilon_v=(0.8, 1.0),
)


def notices(compare: Callable[..., None], *cases: st.SearchStrategy[Any]) -> bool:
    """Tell whether a comparison fails on any generated case, as it must after a fault was planted."""
    try:
        _SEARCH(given(*cases)(compare))()
    except AssertionError:
        return True
    return False


def columns(rows: Sequence[Candidate]) -> tuple[RoutingScores, NDArray[np.bool_], NDArray[np.bool_]]:
    """Return scores, labels and verdicts of an oracle's candidates."""
    s, d, u, h, valid, _, u_cal, empty = (np.array(column) for column in zip(*rows, strict=True))
    return RoutingScores(s, d, u, h, u_cal, empty), valid, np.array([row.output == "VALID" for row in rows])


def as_oracle(policy: Thresholds) -> Policy:
    """Return a policy as the oracle writes it: limits of a region that is off count for nothing."""
    direct, verify = tuple(policy[:3]), tuple(policy[3:])
    return Policy(*(NO_DIRECT if direct[0] == np.inf else direct), *(NO_VERIFY if verify[0] == np.inf else verify))
