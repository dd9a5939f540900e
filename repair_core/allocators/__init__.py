"""Allocators: which suffix positions to recompute. One file each; importing this package registers them."""

from importlib import import_module

from cachemend.repair_core.allocators.allocate import allocate
from cachemend.repair_core.allocators.base import Allocator, Signal, get_allocator, names, register

# In the order of tables: ours, its controls, the adapted methods, the privileged reference.
for _module in (
    "sur",
    "dense_tokens",
    "max_relevance_window",
    "bm25_units",
    "random_units",
    "prophetkv",
    "infoflow",
    "cache_craft",
    "cacheblend",
    "a3",
    "legolink",
    "cachetune",
    "speccache",
    "clean_state_oracle",
):
    import_module(f"{__name__}.{_module}")

__all__ = ["Allocator", "Signal", "allocate", "get_allocator", "names", "register"]
