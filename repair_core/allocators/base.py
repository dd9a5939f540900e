"""The contract of an allocator, and the registry of those that exist."""

import math
from abc import ABC, abstractmethod
from enum import Enum
from typing import ClassVar, TypeVar

import numpy as np

from cachemend.repair_core.context import RepairContext
from cachemend.repair_core.errors import InputError, nearest
from cachemend.repair_core.intervals import Positions


class Signal(Enum):
    """What an allocator must know before it can choose; arms of a case share it and are charged for it."""

    TEXT = "text"
    UNITS = "units"
    EMBEDDINGS = "embeddings"
    QUERY_ATTENTION = "query-attention"
    DIRTY_REPLAY = "dirty-replay"
    SHALLOW_PREFILL = "shallow-prefill"
    SHALLOW_QUERY = "shallow-query"
    SPECTRUM = "spectrum"
    AUXILIARY_MODEL = "auxiliary-model"
    CLEAN_CACHE = "clean-cache"


class Allocator(ABC):
    """Chooses which suffix positions a budget recomputes."""

    name: ClassVar[str]
    signals: ClassVar[tuple[Signal, ...]]

    @abstractmethod
    def select(self, context: RepairContext, budget: int) -> Positions:
        """Return exactly `budget` distinct suffix indices (0..S-1, any order); 0 < budget < S.

        Deterministic: the same context and budget give the same choice in every process.
        """


_registry: dict[str, type[Allocator]] = {}
A = TypeVar("A", bound=type[Allocator])


def register(allocator: A) -> A:
    """Class decorator: make an allocator known by its name; a name taken twice is an error."""
    if allocator.name in _registry:
        raise ValueError(f"allocator {allocator.name!r} is registered twice")
    _registry[allocator.name] = allocator
    return allocator


def names() -> tuple[str, ...]:
    """Names of all allocators, in order of registration."""
    return tuple(_registry)


def get_allocator(name: str) -> Allocator:
    """Return the allocator called `name`.

    Raises:
        InputError: unknown name; the message gives the nearest one.
    """
    if not isinstance(name, str) or name not in _registry:
        raise InputError(f"allocator {name!r} is unknown; {nearest(name, _registry)}")
    return _registry[name]()


def top(scores: np.ndarray, count: int) -> Positions:
    """Indices of the `count` largest scores, earlier first on ties (paper section 7.4).

    Scores that agree to 2^-20 of the largest are ties: the order of a sum must not decide who is chosen.
    """
    largest = float(np.abs(scores).max(initial=0.0))
    step = 2.0 ** (math.frexp(largest)[1] - 21) if largest > 0 else 1.0
    return np.argsort(-np.rint(scores / step), kind="stable")[:count].astype(np.int64)
