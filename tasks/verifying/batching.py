"""Batches of similar lengths, and halves of a batch that memory does not suffice for."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


def batched(
    items: Sequence[Item],
    run: Callable[[list[Item]], list[Result]],
    failed: Result,
    *,
    length: Callable[[Item], int],
    tokens: int,
) -> list[Result]:
    """Run items in batches of similar lengths, the longest first, and return their results in the order given.

    Args:
        items: what to run.
        run: computes a batch.
        failed: the result of an item that does not fit memory even alone.
        length: tokens of an item, at least 1.
        tokens: of a batch, padding included; a longer item is a batch of its own.
    """
    results: list[Result] = [failed] * len(items)
    lengths = [length(item) for item in items]
    order = sorted(range(len(items)), key=lambda index: (lengths[index], index))
    while order:
        size = max(1, tokens // lengths[order[-1]])
        batch, order = order[-size:], order[:-size]
        for index, result in zip(batch, _run(run, [items[index] for index in batch], failed), strict=True):
            results[index] = result
    return results


def _run(run: Callable[[list[Item]], list[Result]], items: list[Item], failed: Result) -> list[Result]:
    try:
        return run(items)
    except (MemoryError, torch.OutOfMemoryError):
        if len(items) == 1:
            return [failed]
    # Outside the handler: while it runs, the exception keeps the failed batch's tensors alive.
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    middle = len(items) // 2
    return _run(run, items[:middle], failed) + _run(run, items[middle:], failed)
