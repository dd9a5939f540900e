"""Differences of rows and logits, the fixed error budget, and a model's FP32 twin."""

import numpy as np
import pytest
import torch

from cachemend.repair_core import prefill
from cachemend.repair_core.caches import Rows, read_rows
from cachemend.repair_core.numeric_errors import NumericError, check_budget, numeric_error, row_errors
from cachemend.repair_core.promoting import full_fp32, is_low_precision, promoted, promoted_rows

from support.tiny_models import BY_NAME, build


def test_an_error_by_hand() -> None:
    found = numeric_error(torch.tensor([1.0, 2.0, -2.0]), torch.tensor([1.0, 5.0, 2.0]))
    assert found == pytest.approx((4.0, np.sqrt(25 / 3), 5 / np.sqrt(30)))
    nothing = torch.zeros(3)
    assert numeric_error(nothing, nothing) == (0, 0, 0)
    assert numeric_error(torch.ones(3), nothing).relative == float("inf")


def test_rows_are_compared_at_the_positions_alone() -> None:
    generator = torch.Generator().manual_seed(0)
    truth = [Rows(*torch.randn(2, 1, 3, 9, 4, generator=generator)) for _ in range(2)]
    ours = [Rows(keys.clone(), values.clone()) for keys, values in truth]
    ours[1].values[0, 2, 5, 1] += 0.5
    ours[0].keys[0, 0, 7] += 9.0
    found = row_errors(ours, truth, np.array([1, 5]))
    assert list(found) == ["layer 0 keys", "layer 0 values", "layer 1 keys", "layer 1 values"]
    assert [error.maximum for error in found.values()] == [0, 0, 0, pytest.approx(0.5)]
    norm = float(truth[1].values[:, :, [1, 5]].double().norm())
    assert found["layer 1 values"].relative == pytest.approx(0.5 / norm)
    assert found["layer 1 values"].rms == pytest.approx(0.5 / np.sqrt(3 * 2 * 4))


def test_the_budget_is_twice_the_native_error() -> None:
    native = {"a": NumericError(1.0, 0.5, 0.0), "b": NumericError(0.0, 0.0, 0.0)}
    good = check_budget({"a": NumericError(2.0, 0.75, 0.0), "b": NumericError(0.0, 0.0, 0.0)}, native)
    assert good == (4, 0, 2.0, "a maximum")
    bad = check_budget({"a": NumericError(1.0, 1.01, 0.0), "b": NumericError(1e-9, 0.0, 0.0)}, native)
    assert bad == (4, 2, pytest.approx(2.02), "a rms")
    assert check_budget({"b": native["b"]}, native) == (2, 0, None, None)


def test_the_twin_holds_the_same_numbers_in_fp32() -> None:
    model = build(BY_NAME["llama"], dtype=torch.bfloat16)
    twin = promoted(model)
    assert promoted(model) is twin
    assert is_low_precision(model)
    assert not is_low_precision(twin)
    for (name, mine), (other, theirs) in zip(model.named_parameters(), twin.named_parameters(), strict=True):
        assert name == other
        assert mine.dtype == torch.bfloat16
        assert theirs.dtype == torch.float32
        assert torch.equal(mine.float(), theirs)
    rows = read_rows(prefill(model, range(3, 40)))
    for low, high in zip(rows, promoted_rows(rows), strict=True):
        assert torch.equal(low.keys, high.keys.bfloat16())
        assert high.values.dtype == torch.float32


def test_fp32_products_are_unrounded_inside_and_as_before_outside() -> None:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        with full_fp32():
            assert torch.get_float32_matmul_precision() == "highest"
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision(before)
