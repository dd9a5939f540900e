"""What a gate is worth: edit by edit, by hand, at its ends, and with the edit paper's figures."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachemend.calibration.gate import RULES, Costs, Edits, gate_value

COSTS = Costs(repair=2.0, re_prefill=30.0)
EDIT = st.tuples(st.booleans(), st.booleans(), st.booleans())


def edits(outcomes: list[tuple[bool, bool, bool]]) -> Edits:
    stale, repaired, sent = zip(*outcomes, strict=True)
    return Edits(stale=stale, repaired=repaired, sent=sent)


def test_by_hand() -> None:
    """Four edits that matter, two of which the gate sends; of five others it sends one."""
    relevant = Edits(
        stale=[True, True, True, False], repaired=[False, False, True, False], sent=[True, False, False, True]
    )
    irrelevant = Edits(stale=[True] + [False] * 4, repaired=[True] * 2 + [False] * 3, sent=[False, True] + [False] * 3)
    table = gate_value(relevant, irrelevant, COSTS, [0.5, 1.0])
    assert [(row.share, row.rule) for row in table] == [(share, rule) for share in (0.5, 1.0) for rule in RULES]
    assert [row[2:] for row in table] == [
        (pytest.approx((3 / 4 + 1 / 5) / 2), 0.0),
        (pytest.approx((2 / 4 + 2 / 5) / 2), pytest.approx((2 / 4 + 1 / 5) / 2 * 2.0)),
        (pytest.approx((1 / 4 + 2 / 5) / 2), 2.0),
        (0.0, 30.0),
        (0.75, 0.0),
        (0.5, 1.0),
        (0.25, 2.0),
        (0.0, 30.0),
    ]


@given(st.floats(0, 1), st.lists(EDIT, min_size=1, max_size=9), st.lists(EDIT, min_size=1, max_size=9))
def test_against_sums_over_single_edits(share: float, relevant: list, irrelevant: list) -> None:
    found = gate_value(edits(relevant), edits(irrelevant), COSTS, [share])
    for row, sends in zip(found, (lambda e: False, lambda e: e[2], lambda e: True), strict=False):
        failures = cost = 0.0
        for kind, weight in ((relevant, share), (irrelevant, 1 - share)):
            failures += weight * sum(e[1] if sends(e) else e[0] for e in kind) / len(kind)
            cost += weight * sum(2.0 * sends(e) for e in kind) / len(kind)
        assert (row.failures, row.cost) == (pytest.approx(failures), pytest.approx(cost))


def test_a_gate_that_sends_the_failures_is_better_than_one_that_sends_as_many_others() -> None:
    stale, repaired = [True] * 5 + [False] * 5, [False] * 10
    quiet = Edits(stale=[False], repaired=[False], sent=[False])
    failures, costs = zip(
        *(
            gate_value(Edits(stale=stale, repaired=repaired, sent=sent), quiet, COSTS, [1.0])[1][2:]
            for sent in ([True] * 5 + [False] * 5, [False] * 5 + [True] * 5)
        ),
        strict=True,
    )
    assert failures == (0.0, 0.5)
    assert costs == (1.0, 1.0)


def test_without_a_prediction_of_both_kinds_there_is_no_such_rule() -> None:
    told, untold = (Edits(stale=[True], repaired=[False], sent=sent) for sent in ([True], None))
    for kinds in ((told, untold), (untold, told), (untold, untold)):
        assert [row.rule for row in gate_value(*kinds, COSTS, [0.5])] == [RULES[0], *RULES[2:]]


def test_the_papers_case_for_repairing_always() -> None:
    """Every edit matters, 98.8 % of stale answers fail, Flip at least 0.95, 35 ms against 458 ms (Table 4)."""
    relevant = Edits(
        stale=np.arange(500) < 494, repaired=np.arange(500) >= 475, sent=np.arange(500) < 450
    )  # a better gate than any that the paper found
    never, predicted, always, re_prefill = gate_value(
        relevant, Edits(stale=[False], repaired=[False], sent=[False]), Costs(repair=35.0, re_prefill=458.0), [1.0]
    )
    assert always.failures < predicted.failures < never.failures == 0.988
    assert re_prefill.cost / always.cost > 13


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Edits(stale=[], repaired=[]), "not 0"),
        (lambda: Edits(stale=[True], repaired=[True, False]), r"lengths \{'stale': 1, 'repaired': 2\}"),
        (lambda: Edits(stale=[True], repaired=[True], sent=[]), "'sent': 0"),
        (lambda: Costs(repair=1.0, re_prefill=-2.0), "the cost re_prefill is -2.0"),
        (lambda: Costs(repair=float("inf"), re_prefill=2.0), "the cost repair is inf"),
        (lambda: gate_value(*[Edits(stale=[True], repaired=[False])] * 2, COSTS, [1.5]), "the share 1.5"),
    ],
)
def test_bad_input_raises(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        call()
