"""KV repair: edits, shift, segmentation, relevance, allocators, executors and decoding.

Names are imported on first use, so that reading results does not load torch and transformers.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cachemend.repair_core.allocators import allocate
    from cachemend.repair_core.answering import Answer, answer, answer_batch
    from cachemend.repair_core.arms import REFERENCES, Arm, sweep_arms
    from cachemend.repair_core.budget import Tokens, repair_budget
    from cachemend.repair_core.caches import RepairedCache, RowState
    from cachemend.repair_core.context import RepairContext, StaleContext
    from cachemend.repair_core.decision_table import DecisionTable
    from cachemend.repair_core.edits import Change, Deletion, Edit, Edits
    from cachemend.repair_core.errors import InputError, Refused
    from cachemend.repair_core.estimating import Cost, Estimate, estimate
    from cachemend.repair_core.features import EditFeatures, edit_features
    from cachemend.repair_core.models import LoadedModel, load_model
    from cachemend.repair_core.policies import Choice, choose
    from cachemend.repair_core.prefilling import prefill
    from cachemend.repair_core.refreshing import refresh
    from cachemend.repair_core.repairing import Repair, repair, repair_batch
    from cachemend.repair_core.replacement import Replacement, replacement_from_texts
    from cachemend.repair_core.replaying import replay
    from cachemend.repair_core.shifting import shift
    from cachemend.repair_core.spot_checking import SpotCheck, sampled, spot_check
    from cachemend.repair_core.units import semantic_units

# Bumped by hand when results may change: it is part of a record's identity.
ENGINE_VERSION = 2

# Modules are named unlike what they export: importing a module puts it into this package under its own name.
_HOMES = {
    "allocators": ("allocate",),
    "answering": ("Answer", "answer", "answer_batch"),
    "arms": ("REFERENCES", "Arm", "sweep_arms"),
    "budget": ("Tokens", "repair_budget"),
    "caches": ("RepairedCache", "RowState"),
    "context": ("RepairContext", "StaleContext"),
    "decision_table": ("DecisionTable",),
    "edits": ("Change", "Deletion", "Edit", "Edits"),
    "errors": ("InputError", "Refused"),
    "estimating": ("Cost", "Estimate", "estimate"),
    "features": ("EditFeatures", "edit_features"),
    "models": ("LoadedModel", "load_model"),
    "policies": ("Choice", "choose"),
    "prefilling": ("prefill",),
    "refreshing": ("refresh",),
    "repairing": ("Repair", "repair", "repair_batch"),
    "replacement": ("Replacement", "replacement_from_texts"),
    "replaying": ("replay",),
    "shifting": ("shift",),
    "spot_checking": ("SpotCheck", "sampled", "spot_check"),
    "units": ("semantic_units",),
}

_MODULE_OF = {name: module for module, exported in _HOMES.items() for name in exported}

__all__ = [
    "ENGINE_VERSION",
    "REFERENCES",
    "Answer",
    "Arm",
    "Change",
    "Choice",
    "Cost",
    "DecisionTable",
    "Deletion",
    "Edit",
    "EditFeatures",
    "Edits",
    "Estimate",
    "InputError",
    "LoadedModel",
    "Refused",
    "Repair",
    "RepairContext",
    "RepairedCache",
    "Replacement",
    "RowState",
    "SpotCheck",
    "StaleContext",
    "Tokens",
    "allocate",
    "answer",
    "answer_batch",
    "choose",
    "edit_features",
    "estimate",
    "load_model",
    "prefill",
    "refresh",
    "repair",
    "repair_batch",
    "repair_budget",
    "replacement_from_texts",
    "replay",
    "sampled",
    "semantic_units",
    "shift",
    "spot_check",
    "sweep_arms",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value
