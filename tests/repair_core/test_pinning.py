"""Rotary frequencies that depend on the context's length stay those of the whole context."""

import numpy as np
import pytest
import torch

from cachemend.repair_core import Deletion, Refused, prefill, refresh, replay
from cachemend.repair_core.caches import Rows, read_rows
from cachemend.repair_core.executors import REPAIRING

from support.capability_matrix import difference
from support.tiny_models import BY_NAME, SWITCH, VOCABULARY, build

IDS = np.random.default_rng(0).integers(3, VOCABULARY, 2 * SWITCH).tolist()
OLD = [*IDS[:5], 7, *IDS[6:]]
names = pytest.mark.parametrize("name", ["phi3-longrope", "llama-dynamic"])


@names
@pytest.mark.parametrize("executor", REPAIRING)
def test_rows_below_the_switch_length_are_rotated_like_those_above(name: str, executor: str) -> None:
    model = build(BY_NAME[name])
    stale = prefill(model, OLD)
    # The first rows of a refresh are the clean ones: what they read is clean.
    out = read_rows(refresh(model, stale, IDS, range(5, SWITCH - 10), executor=executor))
    clean = read_rows(prefill(model, IDS))
    part = [[Rows(k[:, :, : SWITCH - 10], v[:, :, : SWITCH - 10]) for k, v in rows] for rows in (out, clean)]
    assert difference(*part) <= 1e-4


@names
def test_the_length_of_an_earlier_context_is_forgotten(name: str) -> None:
    used, fresh = build(BY_NAME[name]), build(BY_NAME[name])
    prefill(used, IDS)
    part = IDS[: SWITCH + 5]
    assert difference(read_rows(prefill(used, part)), read_rows(prefill(fresh, part))) == 0


@names
def test_the_switch_length_really_matters(name: str) -> None:
    short, long = (read_rows(prefill(build(BY_NAME[name]), ids)) for ids in (IDS[: SWITCH - 5], IDS))
    assert not torch.allclose(short[0].keys, long[0].keys[:, :, : SWITCH - 5], atol=1e-2)


@names
def test_replay_keeps_rows_only_under_the_same_rotation(name: str) -> None:
    model = build(BY_NAME[name])
    across = Deletion(prefix_ids=IDS[:10], deleted_ids=IDS[10:50], suffix_ids=IDS[50:])
    with pytest.raises(Refused, match=r"rotates a context of 80 tokens otherwise than one of 40"):
        replay(model, prefill(model, across.original_ids), across)
    within = Deletion(prefix_ids=IDS[:10], deleted_ids=IDS[10:15], suffix_ids=IDS[15:35])
    out = read_rows(replay(model, prefill(model, within.original_ids), within))
    assert difference(out, read_rows(prefill(model, within.edited_ids))) <= 1e-5
