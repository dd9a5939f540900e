"""Semantic units on a CPU worker while the device computes relevance (paper section 13.3, "Preparation overlap")."""

import time
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache

from cachemend.repair_core.context import StaleContext
from cachemend.repair_core.units import Segmentation, semantic_units


def prepare_overlapped(context: StaleContext) -> None:
    """Compute `context.segmentation` on a worker thread and `context.relevance` on this one.

    Both are what they would be one after the other. In `context.timings`, "units" is what is left of them when
    relevance is ready, so that the two add up to the time that passed.
    """
    _ = context.query_ids  # the tokenizer is not used by both threads at once
    # Not `context.segmentation`: that would wait for the device before and after.
    future: Future[Segmentation] = _worker().submit(semantic_units, context.tokenizer, context.deletion)
    _ = context.relevance
    start = time.perf_counter()
    context.segmentation = future.result()
    context.timings["units"] = time.perf_counter() - start


@cache
def _worker() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="cachemend-units")
