"""A small refresh of the model itself, before the first real one: the last guard against silent errors."""

from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakSet

import torch
from torch import nn

from cachemend.repair_core.architecture import text_config
from cachemend.repair_core.caches import Rows, read_rows
from cachemend.repair_core.errors import Refused
from cachemend.repair_core.executors.interval import IntervalExecutor
from cachemend.repair_core.executors.packed import PackedExecutor
from cachemend.repair_core.forward import input_device, model_lock
from cachemend.repair_core.pinning import pinned_frequencies
from cachemend.repair_core.prefilling import prefill
from cachemend.repair_core.rotary import relative_error

TOKENS = 8
CHANGED = 2
SCATTERED = (2, 3, 6)
# Windows shrink to this for the proof, so that the few tokens cross them.
WINDOW = 3
# Largest median |difference| / |row|.
TOLERANCE = {torch.float64: 1e-5, torch.float32: 1e-4, torch.bfloat16: 0.1, torch.float16: 0.03}

_proven: "WeakSet[nn.Module]" = WeakSet()


def prove_refresh(model: nn.Module) -> None:
    """Refresh a few tokens of a model once, and refuse it where the results disagree.

    The packed rows must be those of the interval-wise executor, and recomputing everything behind a change must
    give a fresh prefill. That fails where attention adds something the packed executor does not know of (a position
    bias, a learned mask), sees the future, or limits its view otherwise than its configuration says.

    Raises:
        Refused: names what disagreed.
    """
    with model_lock(model):
        if model in _proven:
            return
        try:
            with _small_windows(model):
                _prove(model)
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, TypeError) as error:
            reason = str(error).splitlines()[0]
            raise Refused(f"{_kind(model)}: its layers cannot run a refresh of {TOKENS} tokens ({reason})") from error
        _proven.add(model)


def _prove(model: nn.Module) -> None:
    device, vocabulary = input_device(model), text_config(model).vocab_size
    ids = ((torch.arange(TOKENS, device=device) * 7919 + 101) % vocabulary)[None]
    old = ids.clone()
    old[0, CHANGED] = (old[0, CHANGED] + 1) % vocabulary
    stale, clean = read_rows(prefill(model, old)), read_rows(prefill(model, ids))
    some, all_behind = torch.tensor([SCATTERED]), torch.arange(CHANGED, TOKENS)[None]
    with torch.no_grad(), pinned_frequencies(model, TOKENS):
        packed = PackedExecutor().run(model, stale, ids, some, in_place=False)
        interval = IntervalExecutor().run(model, stale, ids, some, in_place=False)
        whole = PackedExecutor().run(model, stale, ids, all_behind, in_place=False)
    _require_equal(model, packed, interval, some[0], "packed and interval-wise refresh disagree")
    _require_equal(model, whole, clean, all_behind[0], "a whole refresh is not a fresh prefill")


@contextmanager
def _small_windows(model: nn.Module) -> Iterator[None]:
    """Let every limited layer see `WINDOW` tokens: a model that reads its window elsewhere than we do is found out."""
    config = text_config(model)
    names = [name for name in ("sliding_window", "attention_chunk_size") if getattr(config, name, None)]
    before = [getattr(config, name) for name in names]
    try:
        for name in names:
            setattr(config, name, WINDOW)
        yield
    finally:
        for name, size in zip(names, before, strict=True):
            setattr(config, name, size)


def _require_equal(model: nn.Module, ours: list[Rows], truth: list[Rows], where: torch.Tensor, what: str) -> None:
    for layer, (mine, theirs) in enumerate(zip(ours, truth, strict=True)):
        for a, b in zip(mine, theirs, strict=True):
            on = where.to(a.device)
            error = relative_error(a.index_select(2, on), b.index_select(2, on))
            if not error <= TOLERANCE.get(a.dtype, 0.1):
                raise Refused(
                    f"{_kind(model)}: {what} in layer {layer} (relative error {error:.3g}); its attention is not one "
                    "this package can refresh"
                )


def _kind(model: nn.Module) -> str:
    return f"model type {text_config(model).model_type!r}"
