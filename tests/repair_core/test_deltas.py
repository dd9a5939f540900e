import pytest
import torch

from cachemend.repair_core import InputError
from cachemend.repair_core.caches import Rows, clone_rows
from cachemend.repair_core.deltas import apply_delta, delta_of, restore
from cachemend.repair_core.invariants import caches_equal, changed_rows

HEADS, LENGTH = 2, 12


def _cache(seed: int, batch: int = 1, length: int = LENGTH, dtype: torch.dtype = torch.bfloat16) -> list[Rows]:
    generator = torch.Generator().manual_seed(seed)
    # Key and value widths differ, as they may.
    shapes = [(batch, HEADS, length, 4), (batch, HEADS, length, 3)]
    return [Rows(*(torch.randn(s, generator=generator).to(dtype) for s in shapes)) for _ in range(3)]


def test_one_scratch_cache_serves_every_arm() -> None:
    base = _cache(0)
    scratch, buffer = clone_rows(base), _cache(9, batch=3, length=LENGTH + 5)
    room = clone_rows(buffer)
    for tensor, source in ((t, s) for b, r in zip(buffer, base, strict=True) for t, s in zip(b, r, strict=True)):
        tensor[:, :, :LENGTH] = source
    arms = [[0, 3, 11], [5], [2, 3, 4, 5]]
    refreshed = []
    for index, positions in enumerate(arms):
        fresh = _cache(index + 1)
        for (k, v), new in zip(scratch, fresh, strict=True):
            k[:, :, positions], v[:, :, positions] = new.keys[:, :, positions], new.values[:, :, positions]
        refreshed.append(clone_rows(scratch))
        delta = delta_of(scratch, positions)
        assert delta.rows[0].keys.shape == (1, HEADS, len(positions), 4)
        restore(scratch, base, positions)
        assert caches_equal(scratch, base)
        apply_delta(buffer, delta, index)
    for index, arm in enumerate(refreshed):
        assert set(changed_rows(base, arm)) == set(arms[index])
        assert caches_equal([Rows(*(t[index : index + 1, :, :LENGTH] for t in layer)) for layer in buffer], arm)
    spare = [[Rows(*(t[:, :, LENGTH:] for t in layer)) for layer in rows] for rows in (buffer, room)]
    assert caches_equal(*spare)


def test_a_delta_is_a_copy() -> None:
    cache, positions = _cache(0), torch.tensor([1, 4])
    delta, before = delta_of(cache, positions), _cache(0)
    for layer in cache:
        layer.keys.zero_()
        layer.values.zero_()
    positions.zero_()
    assert delta.positions.tolist() == [1, 4]
    apply_delta(cache, delta, 0)
    assert changed_rows(before, cache).tolist() == [p for p in range(LENGTH) if p not in (1, 4)]


def test_bad_input_is_named() -> None:
    cache, delta = _cache(0), delta_of(_cache(1), [2, 11])
    with pytest.raises(InputError, match="2 sequences"):
        delta_of(_cache(0, batch=2), [1])
    with pytest.raises(InputError, match="rows 0 to 11"):
        delta_of(cache, [12])
    with pytest.raises(InputError, match="sorted"):
        delta_of(cache, [3, 2])
    with pytest.raises(InputError, match="batch index 1"):
        apply_delta(cache, delta, 1)
    with pytest.raises(InputError, match="batch index -1"):
        apply_delta(cache, delta, -1)
    with pytest.raises(InputError, match="rows 0 to 7"):
        apply_delta(_cache(0, length=8), delta, 0)
    with pytest.raises(InputError, match="2 layers"):
        apply_delta(cache[:2], delta, 0)
    with pytest.raises(InputError, match="rows 0 to 11"):
        restore(cache, _cache(1), [-1])
