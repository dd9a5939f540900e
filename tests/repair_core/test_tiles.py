import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cachemend.repair_core.architecture import Window
from cachemend.repair_core.executors.tiles import tile_bounds, visible_keys

ROWS, KEYS = 4, 8
WINDOWS = st.none() | st.builds(Window, st.integers(1, 60), st.booleans())


def test_without_a_window_they_are_the_published_counts() -> None:
    u = np.sort(np.random.default_rng(0).choice(5000, 70, replace=False))
    start, full_start, full_stop, total = tile_bounds(visible_keys(torch.from_numpy(u)[None], None), 16, 64)
    for tile in range(5):
        rows = u[16 * tile : 16 * tile + 16]
        assert full_stop[0, tile] == (rows.min() + 1) // 64
        assert total[0, tile] == np.ceil((rows.max() + 1) / 64)
    assert start.shape == (1, 5)
    assert not start.any()
    assert not full_start.any()


@given(st.lists(st.integers(0, 90), min_size=1, max_size=20, unique=True).map(sorted), WINDOWS)
def test_tiles_hold_all_that_is_seen_and_full_ones_nothing_else(u: list[int], window: Window | None) -> None:
    visible = visible_keys(torch.tensor([u]), window)
    bounds = tile_bounds(visible, ROWS, KEYS)
    for tile in range(-(-len(u) // ROWS)):
        start, full_start, full_stop, total = (int(b[0, tile]) for b in bounds)
        assert 0 <= start <= full_start <= full_stop <= total
        seen = []
        for row in u[tile * ROWS : (tile + 1) * ROWS]:
            first = 0 if window is None else row - row % window.size if window.chunked else row - window.size + 1
            seen.append(set(range(max(0, first), row + 1)))
        everything = set.union(*seen)
        assert (start, total) == (min(everything) // KEYS, max(everything) // KEYS + 1)
        assert all(set(range(full_start * KEYS, full_stop * KEYS)) <= keys for keys in seen)


@pytest.mark.parametrize("window", [None, Window(3)])
def test_int32_is_enough_and_used(window: Window | None) -> None:
    assert {t.dtype for t in visible_keys(torch.tensor([[2**31 - 2]]), window)} == {torch.int32}
    assert int(tile_bounds(visible_keys(torch.tensor([[2**31 - 2]]), window), 16, 64).total) == 2**25
