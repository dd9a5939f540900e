import numpy as np
import pytest
import torch

from cachemend.repair_core.architecture import Window
from cachemend.repair_core.executors.one_shot import visible


@pytest.mark.parametrize("window", [None, Window(1), Window(7), Window(1, chunked=True), Window(7, chunked=True)])
def test_visible_rows_by_brute_force(window: Window | None) -> None:
    rng, length, count = np.random.default_rng(4), 30, 9
    positions = np.stack([np.sort(rng.choice(length, count, replace=False)) for _ in range(3)])
    seen = visible(torch.from_numpy(positions), length, window).numpy()
    assert seen.shape == (3, 1, count, length + count)

    def within(query: int, key: int) -> bool:
        if window is None or key > query:
            return key <= query
        return key // window.size == query // window.size if window.chunked else key > query - window.size

    for b, selected in enumerate(positions.tolist()):
        for r, query in enumerate(selected):
            cached = [j not in selected and within(query, j) for j in range(length)]
            appended = [within(query, j) for j in selected]
            assert seen[b, 0, r].tolist() == cached + appended
