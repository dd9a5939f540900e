"""The contracts of a policy and of a diagnostic, and the registry of both (edit paper, "Selection policies")."""

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple, TypeVar

from cachemend.repair_core.allocators.base import Signal
from cachemend.repair_core.context import StaleContext
from cachemend.repair_core.errors import InputError, nearest
from cachemend.repair_core.intervals import Positions
from cachemend.repair_core.truth import Truth


class Choice(NamedTuple):
    """What a policy recomputes beside the span.

    Attributes:
        positions: int64, sorted unique positions of the edited context.
        n_topup: how many of them were drawn at random because the rule had too few of its own.
    """

    positions: Positions
    n_topup: int = 0


class Rule(ABC):
    """What policies and diagnostics share.

    Attributes:
        name: as in results.
        own_length: it sets its own number of positions instead of taking K.
        deployable: it knows only what is known when a cache has to be repaired.
        signals: what it looks at; the seconds they took are in the context's timings.
    """

    name: ClassVar[str]
    own_length: ClassVar[bool] = False
    deployable: ClassVar[bool]
    signals: ClassVar[tuple[Signal, ...]] = ()


class Policy(Rule):
    """A rule that can be deployed: it sees the stale cache, both texts and the query, never a clean cache or an answer.

    That holds by type: `StaleContext` has no clean cache.
    """

    deployable = True

    @abstractmethod
    def select(self, context: StaleContext, k: int) -> Choice:
        """Return exactly `k` distinct positions of `context.pool` (any order); 0 < k <= its size.

        A rule of its own length ignores k. Deterministic: the same in every process.
        """


class Diagnostic(Rule):
    """A rule that knows the truth and therefore only explains; it is no upper bound on what recomputation can do."""

    deployable = False

    @abstractmethod
    def select(self, context: StaleContext, truth: Truth, k: int) -> Choice:
        """As in `Policy`, knowing the truth."""


_registry: dict[str, type[Rule]] = {}
R = TypeVar("R", bound=type[Rule])


def register(rule: R) -> R:
    """Class decorator: make a policy or diagnostic known by its name; a name taken twice is an error."""
    if rule.name in _registry:
        raise ValueError(f"policy {rule.name!r} is registered twice")
    _registry[rule.name] = rule
    return rule


def policy_names() -> tuple[str, ...]:
    """Names of all deployable policies, in the order of tables."""
    return tuple(name for name, rule in _registry.items() if rule.deployable)


def diagnostic_names() -> tuple[str, ...]:
    """Names of all diagnostics, in the order of tables."""
    return tuple(name for name, rule in _registry.items() if not rule.deployable)


def get_policy(name: str) -> Rule:
    """Return the policy or diagnostic called `name`.

    Raises:
        InputError: unknown name; the message gives the nearest one.
    """
    if not isinstance(name, str) or name not in _registry:
        raise InputError(f"policy {name!r} is unknown; {nearest(name, _registry)}")
    return _registry[name]()
