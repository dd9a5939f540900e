"""What a gate is worth: by simulation, by hand, at its ends, and with the edit paper's figures."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachemend.calibration.gate import RULES, Costs, Failures, Gate, gate_value

FRACTION = st.floats(0, 1)
COSTS = Costs(repair=2.0, re_prefill=30.0, predict=0.1)


def test_against_a_simulation_of_single_edits() -> None:
    relevant, irrelevant = Failures(stale=0.9, repaired=0.2), Failures(stale=0.1, repaired=0.05)
    gate = Gate(relevant=0.7, irrelevant=0.3)
    rng = np.random.default_rng(0)
    n = 400_000
    matters = rng.random(n) < 0.4
    sent = {
        "repair never": np.zeros(n, bool),
        "repair when predicted": rng.random(n) < np.where(matters, 0.7, 0.3),
        "repair always": np.ones(n, bool),
    }
    luck = rng.random(n)
    for found in gate_value(relevant, irrelevant, gate, COSTS, [0.4])[:3]:
        repaired = sent[found.rule]
        rate = np.where(matters, np.where(repaired, 0.2, 0.9), np.where(repaired, 0.05, 0.1))
        fails = luck < rate
        cost = 2.0 * repaired + 0.1 * (found.rule == "repair when predicted")
        assert found.failures == pytest.approx(fails.mean(), abs=0.004)
        assert found.cost == pytest.approx(cost.mean(), abs=0.01)
        assert found.cost_if_noticed == pytest.approx((cost + 30.0 * fails).mean(), abs=0.12)


def test_by_hand() -> None:
    table = gate_value(
        Failures(stale=1.0, repaired=0.0),
        Failures(stale=0.0, repaired=0.0),
        Gate(relevant=0.5, irrelevant=0.25),
        COSTS,
        [0.5, 1.0],
    )
    assert [tuple(row) for row in table] == [
        (0.5, "repair never", 0.5, 0.0, 15.0),
        (0.5, "repair when predicted", 0.25, pytest.approx(0.85), pytest.approx(8.35)),
        (0.5, "repair always", 0.0, 2.0, 2.0),
        (0.5, "re-prefill always", 0.0, 30.0, 30.0),
        (1.0, "repair never", 1.0, 0.0, 30.0),
        (1.0, "repair when predicted", 0.5, pytest.approx(1.1), pytest.approx(16.1)),
        (1.0, "repair always", 0.0, 2.0, 2.0),
        (1.0, "re-prefill always", 0.0, 30.0, 30.0),
    ]


@given(FRACTION, FRACTION, FRACTION, FRACTION, FRACTION)
def test_a_gate_that_says_always_or_never_is_that_rule_plus_its_own_cost(
    share: float, stale: float, repaired: float, quiet: float, noisy: float
) -> None:
    kinds = Failures(stale=stale, repaired=repaired), Failures(stale=quiet, repaired=noisy)
    for says, rule in ((0.0, "repair never"), (1.0, "repair always")):
        table = gate_value(*kinds, Gate(relevant=says, irrelevant=says), COSTS, [share])
        rows = {row.rule: row for row in table}
        assert tuple(rows) == RULES
        assert rows["repair when predicted"].failures == pytest.approx(rows[rule].failures)
        assert rows["repair when predicted"].cost == pytest.approx(rows[rule].cost + 0.1)


def test_the_papers_case_for_repairing_always() -> None:
    """Every edit matters, 98.8 % of stale answers fail, Flip 0.95 to 1.00, 31-35 ms against 458-502 ms (Table 4)."""
    costs = Costs(repair=35.0, re_prefill=458.0, predict=0.0)
    table = gate_value(
        Failures(stale=0.988, repaired=0.05),
        Failures(stale=0.0, repaired=0.0),
        Gate(relevant=0.9, irrelevant=0.1),  # better than any gate the paper found
        costs,
        [1.0],
    )
    never, predicted, always, re_prefill = table
    assert always.failures < predicted.failures < never.failures == 0.988
    assert always.cost_if_noticed < predicted.cost_if_noticed < never.cost_if_noticed < re_prefill.cost_if_noticed
    assert re_prefill.cost / always.cost > 13


def test_where_few_edits_matter_repairing_always_is_not_the_cheapest() -> None:
    table = gate_value(
        Failures(stale=1.0, repaired=0.0),
        Failures(stale=0.0, repaired=0.0),
        Gate(relevant=1, irrelevant=0),
        COSTS,
        [0.01],
    )
    rows = {row.rule: row.cost_if_noticed for row in table}
    assert min(rows, key=lambda rule: rows[rule]) == "repair when predicted"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Failures(stale=1.2, repaired=0.0), "Failures.stale is 1.2"),
        (lambda: Failures(stale=0.5, repaired=float("nan")), "Failures.repaired is nan"),
        (lambda: Gate(relevant=-0.1, irrelevant=0.0), "Gate.relevant is -0.1"),
        (lambda: Costs(repair=1.0, re_prefill=-2.0, predict=0.0), "the cost re_prefill is -2.0"),
        (lambda: Costs(repair=float("inf"), re_prefill=2.0, predict=0.0), "the cost repair is inf"),
        (
            lambda: gate_value(*[Failures(stale=1, repaired=0)] * 2, Gate(relevant=1, irrelevant=1), COSTS, [1.5]),
            "the share 1.5",
        ),
    ],
)
def test_bad_input_raises(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        call()
