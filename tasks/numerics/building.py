"""Builds of a case's caches that share nothing with other builds of it."""

from typing import NamedTuple

import numpy as np
from transformers.cache_utils import Cache

from cachemend.datasets.niah_case import NiahCase
from cachemend.repair_core import LoadedModel, RepairContext, allocate, refresh, replay
from cachemend.repair_core.intervals import Positions, maximal_intervals
from cachemend.tasks.numerics.arms import PathArm


class BuiltPath(NamedTuple):
    """A cache of the edited context and the positions that were chosen for it; none for references."""

    cache: Cache
    positions: Positions

    @property
    def n_intervals(self) -> int:
        """Maximal runs of the positions."""
        return len(maximal_intervals(self.positions))


def fresh_context(loaded: LoadedModel, case: NiahCase) -> RepairContext:
    """A context in which nothing is computed yet."""
    deletion, query = case.deletion, case.query_text
    ids = case.relevance_ids
    return RepairContext(loaded.model, loaded.tokenizer, deletion, query, case_id=case.case_id, query_ids=ids)


def build_path(context: RepairContext, arm: PathArm, attention: str) -> BuiltPath:
    """Build an arm's cache from what the context holds; what it does not hold yet is computed and kept there."""
    edit, none = context.deletion, np.empty(0, dtype=np.int64)
    if arm.path == "re-prefill":
        return BuiltPath(context.clean, none)
    if arm.path == "replay":
        return BuiltPath(replay(context.model, context.dirty, edit), none)
    if arm.budget is None:
        return BuiltPath(context.shifted, none)
    positions = allocate(arm.path, context, arm.budget)
    cache = refresh(context.model, context.shifted, edit.edited_ids, positions, arm.executor, attention)
    return BuiltPath(cache, positions)
