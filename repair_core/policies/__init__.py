"""Policies: which positions to recompute after an edit beside its span. One file each; importing registers them."""

from importlib import import_module

from cachemend.repair_core.policies.base import (
    Choice,
    Diagnostic,
    Policy,
    Rule,
    diagnostic_names,
    get_policy,
    policy_names,
    register,
)
from cachemend.repair_core.policies.choose import choose, diagnose
from cachemend.repair_core.truth import Truth

# In the order of tables: those of the edit paper with its block-wise variant, ours, the diagnostics.
for _module in (
    "edit_local",
    "edit_local_boundary",
    "structural",
    "attention",
    "cacheblend",
    "random",
    "sur",
    "edit_local_sur",
    "edit_to_carrier",
    "two_stage",
    "causal_oracle",
    "causal_oracle_screened",
    "carrier_window",
    "span_to_carrier",
):
    import_module(f"{__name__}.{_module}")

POLICIES = policy_names()
DIAGNOSTICS = diagnostic_names()

__all__ = [
    "DIAGNOSTICS",
    "POLICIES",
    "Choice",
    "Diagnostic",
    "Policy",
    "Rule",
    "Truth",
    "choose",
    "diagnose",
    "diagnostic_names",
    "get_policy",
    "policy_names",
    "register",
]
