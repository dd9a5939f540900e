"""Turn K into positions by a named policy."""

import numpy as np

from cachemend.repair_core.context import StaleContext
from cachemend.repair_core.errors import InputError
from cachemend.repair_core.intervals import Positions
from cachemend.repair_core.policies.base import Choice, Diagnostic, Policy, Rule, get_policy
from cachemend.repair_core.truth import Truth
from cachemend.repair_core.whole import whole


def choose(name: str, context: StaleContext, k: int | None = None) -> Choice:
    """Return what a deployable policy recomputes beside the span.

    Args:
        name: a policy, e.g. "edit-local".
        context: the edited context and its query; signals it lacks are computed and timed.
        k: positions to choose; not read by a policy of its own length.

    Returns:
        Sorted unique positions of `context.pool`, exactly k of them unless the policy sets its own length.

    Raises:
        InputError: an unknown policy or a diagnostic, a k outside 0..size of the pool, a context that can compute
            the clean cache.
    """
    policy = get_policy(name)
    if not isinstance(policy, Policy):
        raise InputError(f"policy {name!r} is a diagnostic: it knows the truth and cannot be deployed; use diagnose")
    if not isinstance(context, StaleContext):
        raise InputError(f"context of policy {name!r} is a {type(context).__name__}; give a StaleContext")
    if "clean" in dir(context):
        raise InputError(
            f"policy {name!r} must not see a clean cache, which a {type(context).__name__} can compute; "
            "give a StaleContext"
        )
    count = _count(policy, context.pool, k)
    return _checked(policy, context.pool, count, policy.select(context, count) if count else _nothing())


def diagnose(name: str, context: StaleContext, truth: Truth, k: int | None = None) -> Choice:
    """Return what a diagnostic selects; arguments and errors as in `choose`, and any context will do."""
    rule = get_policy(name)
    if not isinstance(rule, Diagnostic):
        raise InputError(f"policy {name!r} is deployable and is not told the truth; use choose")
    if truth.carrier.stop > len(context.deletion.edited_ids):
        raise InputError(
            f"carrier {truth.carrier.start}..{truth.carrier.stop} ends behind the context; "
            f"it holds {len(context.deletion.edited_ids)} tokens"
        )
    count = _count(rule, context.pool, k)
    return _checked(rule, context.pool, count, rule.select(context, truth, count) if count else _nothing())


def _count(rule: Rule, pool: Positions, k: int | None) -> int:
    if rule.own_length:
        return int(pool.size)
    try:
        count = whole(k)
    except TypeError:
        raise InputError(f"k = {k!r} of policy {rule.name!r} is no whole number; give 0 to {pool.size}") from None
    if not 0 <= count <= pool.size:
        raise InputError(f"k = {count} of policy {rule.name!r} is outside 0 to {pool.size}, the positions downstream")
    return count


def _nothing() -> Choice:
    return Choice(np.empty(0, dtype=np.int64))


def _checked(rule: Rule, pool: Positions, count: int, choice: Choice) -> Choice:
    positions = np.sort(np.asarray(choice.positions, dtype=np.int64))
    wrong = not rule.own_length and positions.size != count
    if wrong or (np.diff(positions) <= 0).any() or not np.isin(positions, pool).all():
        raise AssertionError(f"policy {rule.name!r} did not choose {count} distinct positions of the pool")
    return Choice(positions, choice.n_topup)
