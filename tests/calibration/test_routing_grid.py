"""The policy grid: its published size and its order, against a list made another way."""

from collections import Counter
from math import inf, nan

import pytest

from cachemend.calibration.errors import CalibrationError
from cachemend.calibration.routing import DEFAULT_GRID, REGENERATE_ALL, PolicyGrid

from oracles import routing_policy as oracle


def strictest_first(policy: tuple[float, ...]) -> tuple[float, ...]:
    tau_r, delta_r, upsilon_r, tau_v, tau_v_conflict, delta_v, upsilon_v = policy
    return (-tau_r, delta_r, upsilon_r, -tau_v, -tau_v_conflict, delta_v, upsilon_v)


def test_the_default_grid_has_16192_policies_and_each_form_without_a_region_once() -> None:
    kinds = Counter((policy.tau_r < inf, policy.tau_v < inf) for policy in DEFAULT_GRID)
    assert kinds == {(True, True): 16192, (True, False): 96, (False, True): 192}
    assert len(DEFAULT_GRID) == 16480
    assert len(set(DEFAULT_GRID)) == 16480
    assert REGENERATE_ALL not in set(DEFAULT_GRID)


def test_the_same_policies_as_an_independent_list() -> None:
    def named(policy: tuple[float, ...]) -> tuple[object, ...]:
        direct, verify = policy[:3], policy[3:]
        return (None if direct[0] == inf else direct, None if verify[0] == inf else verify)

    assert {named(policy) for policy in DEFAULT_GRID} == {named(policy) for policy in oracle.grid()}


def test_policies_come_strictest_first() -> None:
    policies = list(DEFAULT_GRID)
    assert policies == sorted(policies, key=strictest_first)


def test_one_threshold_for_both_kinds_of_verification() -> None:
    policies = list(PolicyGrid(tau_v_conflict=None))
    assert all(policy.tau_v == policy.tau_v_conflict for policy in policies)
    assert sum(policy.tau_r < inf and policy.tau_v < inf for policy in policies) == 16192 // 4


def test_an_axis_that_is_no_axis_is_refused() -> None:
    for values in ((), (0.5, 0.5), (0.5, nan)):
        with pytest.raises(CalibrationError, match="grid's delta_v is"):
            PolicyGrid(delta_v=values)
    with pytest.raises(CalibrationError, match="tau_r holds inf"):
        PolicyGrid(tau_r=(0.5, inf))
