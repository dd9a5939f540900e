"""Allocators: which suffix positions to recompute. One file each; importing this package registers them."""

# isort: off  (registration order is the order of tables)
from cachemend.repair_core.allocators import (  # noqa: F401
    bm25_units,
    dense_tokens,
    max_relevance_window,
    random_units,
    sur,
)

# isort: on
from cachemend.repair_core.allocators.allocate import allocate
from cachemend.repair_core.allocators.base import Allocator, Signal, get_allocator, names, register

__all__ = ["Allocator", "Signal", "allocate", "get_allocator", "names", "register"]
