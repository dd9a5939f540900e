"""Every family does what docs/capabilities.md says, and everything refused is refused by name."""

import os
from pathlib import Path

import pytest
import torch

from support.capability_matrix import TOLERANCES, findings, message, page
from support.capability_refusals import REFUSALS, Refusal
from support.tiny_models import FIXED_POSITIONS, MATRIX, Tiny

PAGE = Path(__file__).parents[2] / "docs" / "capabilities.md"
families = pytest.mark.parametrize("tiny", [*MATRIX, *FIXED_POSITIONS], ids=lambda tiny: tiny.name)


@families
def test_packed_is_interval_wise_and_a_whole_refresh_a_fresh_prefill(tiny: Tiny) -> None:
    found = findings(tiny.name)
    assert found.packed[torch.float32] <= 1e-4
    assert found.whole <= 1e-4
    assert found.stale >= 5e-2, "there is something to repair"


@families
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_low_precision(tiny: Tiny, dtype: torch.dtype) -> None:
    assert findings(tiny.name).packed[dtype] <= TOLERANCES[dtype]


@families
def test_shift_moves_keys_or_refuses_by_name(tiny: Tiny) -> None:
    found = findings(tiny.name)
    if tiny.no_shift is None:
        assert found.moved is not None
        assert found.moved <= 1e-5, "layer 0 after Shift is a fresh prefill's"
        assert not found.shift.startswith("refused")
    else:
        assert found.shift.startswith("refused")
        assert tiny.no_shift in found.shift


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: f"{refusal.group}-{refusal.name}")
def test_refusals_name_their_reason(refusal: Refusal) -> None:
    line = message(refusal)
    assert refusal.named in line
    assert "\n" not in line


def test_the_page_is_what_a_run_finds() -> None:
    found = page()
    if os.environ.get("REWRITE_DOCS") == "1":
        PAGE.write_text(found, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == found, "REWRITE_DOCS=1 rewrites it"
