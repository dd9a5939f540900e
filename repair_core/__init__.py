"""KV repair: edits, shift, segmentation, relevance, allocators, executors and decoding."""

from cachemend.repair_core.allocators import allocate
from cachemend.repair_core.answer import Answer, answer, answer_batch
from cachemend.repair_core.arms import REFERENCES, Arm, sweep_arms
from cachemend.repair_core.budget import Tokens, repair_budget
from cachemend.repair_core.caches import RepairedCache, RowState
from cachemend.repair_core.context import RepairContext
from cachemend.repair_core.edits import Deletion
from cachemend.repair_core.errors import InputError, Refused
from cachemend.repair_core.models import LoadedModel, load_model
from cachemend.repair_core.prefill import prefill
from cachemend.repair_core.refresh import refresh
from cachemend.repair_core.repair import Repair, repair, repair_batch
from cachemend.repair_core.replay import replay
from cachemend.repair_core.shift import shift
from cachemend.repair_core.units import semantic_units

# Bumped by hand when results may change: it is part of a record's identity.
ENGINE_VERSION = 1

__all__ = [
    "ENGINE_VERSION",
    "REFERENCES",
    "Answer",
    "Arm",
    "Deletion",
    "InputError",
    "LoadedModel",
    "Refused",
    "Repair",
    "RepairContext",
    "RepairedCache",
    "RowState",
    "Tokens",
    "allocate",
    "answer",
    "answer_batch",
    "load_model",
    "prefill",
    "refresh",
    "repair",
    "repair_batch",
    "repair_budget",
    "replay",
    "semantic_units",
    "shift",
    "sweep_arms",
]
