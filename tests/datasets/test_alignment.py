"""Character boundaries among tokens, and the search for how much text fits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachemend.datasets.alignment import boundary
from cachemend.datasets.seeking import largest_fitting


@given(st.lists(st.integers(0, 4), min_size=1, max_size=20), st.integers(0, 60))
def test_boundary_by_definition(widths: list[int], character: int) -> None:
    starts = [sum(widths[:i]) for i in range(len(widths))]
    offsets = [(start, start + width) for start, width in zip(starts, widths, strict=True)]
    straddled = any(start < character < stop for start, stop in offsets)
    expected = None if straddled else sum(stop <= character for _, stop in offsets)
    assert boundary(offsets, character) == expected


def test_boundary_with_blanks_outside_the_tokens() -> None:
    offsets = [(0, 3), (4, 7)]
    assert boundary(offsets, 3) == boundary(offsets, 4) == 1
    assert boundary(offsets, 5) is None


@given(
    st.lists(st.integers(1, 30), min_size=5, max_size=300),
    st.integers(0, 400),
    st.integers(0, 6000),
    st.integers(1, 400),
    st.integers(1, 3),
)
def test_largest_fitting_against_a_scan(sizes: list[int], head: int, limit: int, guess: int, smallest: int) -> None:
    totals = [head]
    for size in [*sizes, *[30] * 6000]:
        totals.append(totals[-1] + size)
    calls: list[int] = []

    def count(n: int) -> int:
        calls.append(n)
        return totals[n]

    expected = max((n for n in range(smallest, len(totals)) if totals[n] <= limit), default=None)
    assert largest_fitting(count, limit, smallest, guess) == expected
    assert len(calls) == len(set(calls))


@pytest.mark.parametrize("limit", [1_000, 32_768, 1_000_000])
def test_near_linear_counts_need_few_trials(limit: int) -> None:
    calls = []

    def count(n: int) -> int:
        calls.append(n)
        return 40 + 17 * n + n % 5

    assert largest_fitting(count, limit, 6, limit // 20) is not None
    assert len(calls) <= 7
