"""What every family can do, found by running it, as a Markdown page."""

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from cachemend.repair_core import Deletion, Refused, prefill, refresh, shift
from cachemend.repair_core.architecture import Window, layer_windows
from cachemend.repair_core.caches import Rows, read_rows
from cachemend.repair_core.quantized import ACCEPTED
from cachemend.repair_core.rotary import LayerRotations, cache_rotations
from cachemend.repair_core.rotation import Rotation

from support.capability_refusals import REFUSALS, Refusal
from support.tiny_models import BY_NAME, FIXED_POSITIONS, MATRIX, VOCABULARY, Tiny, build

# Largest |packed - interval-wise| / |largest value of the layer|, over all layers, keys and values.
TOLERANCES = {torch.float32: 1e-4, torch.bfloat16: 0.03, torch.float16: 0.005}
IDS = np.random.default_rng(0).integers(3, VOCABULARY, 70).tolist()
EDIT = Deletion(prefix_ids=IDS[:14], deleted_ids=IDS[14:20], suffix_ids=IDS[20:])
LENGTH = len(EDIT.edited_ids)
POSITIONS = [14, 15, 18, 30, 31, 32, 45, 62]


class Findings(NamedTuple):
    """What running one family showed.

    Attributes:
        attention: kinds of layers.
        shift: what Shift does with the cached rows, or why it refuses.
        moved: relative error of layer 0 after Shift against a fresh prefill; None where refused.
        packed: per dtype, packed against interval-wise.
        whole: FP32, refreshing the whole suffix against a fresh prefill.
        stale: FP32, the stale cache against a fresh prefill: what a refresh has to repair.
    """

    attention: str
    shift: str
    moved: float | None
    packed: dict[torch.dtype, float]
    whole: float
    stale: float


def difference(a: Sequence[Rows], b: Sequence[Rows]) -> float:
    """max|a - b| / max|b| of a layer's keys or values, the largest over layers."""
    return max(
        float((x - y).abs().max() / y.abs().max()) for p, q in zip(a, b, strict=True) for x, y in zip(p, q, strict=True)
    )


@cache
def findings(name: str) -> Findings:
    """Run the family called `name`: Shift or an edit in place, packed and interval-wise refresh, in every dtype."""
    tiny = BY_NAME[name]
    packed: dict[torch.dtype, float] = {}
    for dtype in TOLERANCES:
        model = build(tiny, dtype=dtype)
        # Where rows cannot be moved, one token is replaced instead.
        stale = prefill(model, _replaced()) if tiny.no_shift else shift(model, prefill(model, EDIT.original_ids), EDIT)
        ours, theirs = (
            read_rows(refresh(model, stale, EDIT.edited_ids, POSITIONS, executor=executor))
            for executor in ("packed", "interval")
        )
        packed[dtype] = difference(ours, theirs)
    model = build(tiny)
    clean = read_rows(prefill(model, EDIT.edited_ids))
    if tiny.no_shift:
        stale, moved = prefill(model, _replaced()), None
    else:
        stale = shift(model, prefill(model, EDIT.original_ids), EDIT)
        moved = difference(read_rows(stale)[:1], clean[:1])
    whole = refresh(model, stale, EDIT.edited_ids, range(EDIT.prefix_length, LENGTH), executor="packed")
    return Findings(
        attention=_counted([_kind(window) for window in layer_windows(model)]),
        shift=_shift(model),
        moved=moved,
        packed=packed,
        whole=difference(read_rows(whole), clean),
        stale=difference(read_rows(stale), clean),
    )


def message(refusal: Refusal) -> str:
    """The line with which it is refused, without measured numbers."""
    try:
        refusal.attempt()
    except Refused as refused:
        return _without_numbers(str(refused))
    raise AssertionError(f"{refusal.name} is not refused")


def page() -> str:
    """The whole page, from a run of everything on it."""
    lines = [HEAD.format(accepted=", ".join(ACCEPTED)), "## Families", "", _row(FAMILY_COLUMNS), _rule(FAMILY_COLUMNS)]
    lines += [_row(_family(tiny)) for tiny in (*MATRIX, *FIXED_POSITIONS)]
    for group in dict.fromkeys(refusal.group for refusal in REFUSALS):
        columns = (group, "Message")
        lines += ["", f"## Refused: {group.lower()}", "", _row(columns), _rule(columns)]
        lines += [_row((refusal.name, message(refusal))) for refusal in REFUSALS if refusal.group == group]
    return "\n".join(lines) + "\n"


FAMILY_COLUMNS = ("Family", "Model type", "Attention layers", "Refresh", "Shift", "Dtypes")
HEAD = """# What can be repaired

Written by a test run (`REWRITE_DOCS=1 python -m pytest tests/repair_core/test_capabilities.py`), which fails
when this page is not what the run finds. Every family is a small model with random weights and a context of 64 tokens.

- *Refresh*: packed rows equal interval-wise ones, and refreshing everything behind the edit equals a fresh prefill
  (FP32, 1e-4 of a layer's largest value).
- *Shift*: what a probe at load time found for each layer; after Shift, layer 0 equals a fresh prefill (1e-5).
- *Dtypes*: packed against interval-wise within 1e-4 (float32), 0.03 (bfloat16), 0.005 (float16).
- A model type that is not listed is tried: a refresh of a few tokens at load must agree with the interval-wise one and
  with a fresh prefill, or the model is refused.
- Quantized weights are accepted for {accepted}, where only weights are
  quantized, and LoRA adapters, wrapped or merged. The tests run all of them but torchao, which the set-up does not
  install and whose test runs where it is.
- `device_map` over several accelerators is experimental: it has not been run on more than one.
"""


def _family(tiny: Tiny) -> tuple[str, ...]:
    found = findings(tiny.name)
    dtypes = [str(dtype).removeprefix("torch.") for dtype, worst in found.packed.items() if worst <= TOLERANCES[dtype]]
    refresh_works = found.packed[torch.float32] <= 1e-4 and found.whole <= 1e-4
    shift_works = found.moved is None or found.moved <= 1e-5
    return (
        tiny.name,
        f"`{tiny.model_type}`",
        found.attention,
        "yes" if refresh_works else "WRONG",
        found.shift if shift_works else "WRONG",
        ", ".join(dtypes),
    )


def _shift(model: nn.Module) -> str:
    try:
        plan = cache_rotations(model)
    except Refused as refused:
        return f"refused: {_without_numbers(str(refused))}"
    return _counted([_movement(layer) for layer in plan])


def _movement(layer: LayerRotations) -> str:
    if layer.values.inv_freq is not None:
        return f"rotate {_turned(layer.values)}, stored apart"
    return "keep" if layer.keys.inv_freq is None else f"rotate {_turned(layer.keys)}"


def _turned(rotation: Rotation) -> str:
    assert rotation.inv_freq is not None
    return f"{2 * rotation.inv_freq.numel()} dims ({rotation.layout})"


def _kind(window: Window | None) -> str:
    return "full" if window is None else "chunked" if window.chunked else "sliding"


def _counted(kinds: Sequence[str]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in Counter(kinds).items())


def _replaced() -> list[int]:
    ids = list(EDIT.edited_ids)
    ids[EDIT.prefix_length] = 3 + (ids[EDIT.prefix_length] + 7) % (VOCABULARY - 3)
    return ids


def _without_numbers(text: str) -> str:
    return re.sub(r" \(relative error [^)]*\)", "", text)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _rule(columns: Sequence[str]) -> str:
    return "|" + "---|" * len(columns)
