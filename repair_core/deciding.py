"""From a policy as the user gives it to what is done with one edit."""

from pathlib import Path
from weakref import WeakKeyDictionary

from torch import nn

from cachemend.repair_core.budget import Tokens
from cachemend.repair_core.context import StaleContext
from cachemend.repair_core.decision_rules import RE_PREFILL, Action
from cachemend.repair_core.decision_table import DecisionTable
from cachemend.repair_core.errors import InputError
from cachemend.repair_core.features import edit_features
from cachemend.repair_core.models import fingerprint
from cachemend.repair_core.policies import POLICIES, get_policy
from cachemend.repair_core.replacement import changed_span

DEFAULT_K = 32
"""The edit paper's primary budget, where the pool has as many."""

_fingerprints: "WeakKeyDictionary[nn.Module, str]" = WeakKeyDictionary()


def decide(policy: str | Path | DecisionTable, context: StaleContext, budget: float | str | Tokens | None) -> Action:
    """Return what to do with the edit of `context`; only its texts are looked at.

    Args:
        policy: a policy's name, "re-prefill", a decision table, or the path of one's JSON (a `Path`, or a string that
            ends in ".json").
        context: the edit and the query.
        budget: ``Tokens(k)`` for a policy; None for 32, or all that is downstream of the edit where that is less. A
            policy of its own length does not read it. A table has its own, which is cut likewise.

    Raises:
        InputError: an edit of several places, an unknown policy, a budget that is no number of tokens, one beside a
            table, or a table of another model or engine version.
    """
    changed_span(context.deletion)
    if isinstance(policy, Path) or (isinstance(policy, str) and policy.endswith(".json")):
        policy = DecisionTable.load(policy)
    if isinstance(policy, DecisionTable):
        return _by_table(policy, context, budget)
    if not isinstance(policy, str):
        raise InputError(f"policy is a {type(policy).__name__}; give a name, a DecisionTable or the path of its JSON")
    if budget is not None and not isinstance(budget, Tokens):
        raise InputError(f"budget {budget!r} of policy {policy!r} is no number of positions; give Tokens(k)")
    if policy == RE_PREFILL or (policy in POLICIES and get_policy(policy).own_length):
        return Action(policy=policy)
    # Another name is refused by the action: its message offers what can be deployed.
    return Action(policy=policy, k=min(DEFAULT_K, context.pool.size) if budget is None else budget.count)


def _by_table(table: DecisionTable, context: StaleContext, budget: float | str | Tokens | None) -> Action:
    if budget is not None:
        raise InputError(f"budget {budget!r} beside a decision table, which sets its own; leave it out")
    if table.fingerprint is not None and table.fingerprint != (found := _fingerprint(context.model)):
        raise InputError(
            f"decision table was measured on model {table.model!r} ({table.fingerprint}), this one is {found}; "
            "derive it anew, or set its fingerprint to null to use it with any model"
        )
    action = table.decide(edit_features(context))
    if action.k is None:
        return action
    return Action(policy=action.policy, k=min(action.k, context.pool.size))


def _fingerprint(model: nn.Module) -> str:
    if model not in _fingerprints:
        _fingerprints[model] = fingerprint(model)
    return _fingerprints[model]
