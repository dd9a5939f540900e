"""The states of tau-bench in which a cached answer is met again: after something else, or about something else."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from cachemend.datasets.seeded import draw
from cachemend.datasets.tau_changes import Domain
from cachemend.datasets.tau_data import Action
from cachemend.datasets.tau_request import Change, Request


class Side(NamedTuple):
    """A request in a state."""

    request: Request
    state: Any


class User(NamedTuple):
    """A cluster: a user, what the user's tasks changed, and a user without tasks that no other cluster borrows."""

    domain: Domain
    user_id: str
    changes: tuple[Change, ...]
    stranger: str | None

    @property
    def cluster(self) -> str:
        return f"tau-bench:{self.domain.name}:{self.user_id}"


def later(user: User, side: Side, *labels: str | int) -> Side:
    """The same request after one more call of the user that shows in the context and not in the answer.

    The right actions of the user's tasks come first, then calls the user could well make; without any, nothing happens.
    """
    answer, context = side.request.answer(side.state), context_of(user, side)
    right = [change.action for change in user.changes]
    further = list(user.domain.further_calls(side.state, side.request.user_id))
    for action in (*_drawn(right, *labels, "right"), *_drawn(further, *labels, "further")):
        outcome = user.domain.call(side.state, action.name, action.arguments)
        if outcome.failed:
            continue
        after = side._replace(state=outcome.state)
        if side.request.answer(after.state) == answer and context_of(user, after) != context:
            return after
    return side


def _drawn(actions: list[Action], *labels: str | int) -> list[Action]:
    return [actions[i] for i in sorted(range(len(actions)), key=lambda i: draw(*labels, i))]


def other_subject(user: User, change: Change, cached: Side, *labels: str | int) -> Side | None:
    """The same question about another of the user's orders or reservations, else about a stranger's.

    One that stands as the asked one stood before the change is preferred: its state alone then tells nothing.
    """
    request, state = cached
    own = _alike(user, request, user.user_id)
    others = own or (_alike(user, request, user.stranger) if user.stranger else [])

    def rank(other: Request) -> tuple[bool, int]:
        account = other.subject == other.user_id
        alike = account or _status(user, state, other) == _status(user, change.before, request)
        return not alike, draw(*labels, "other", other.subject, other.wordings[0])

    return Side(min(others, key=rank), state) if others else None


def _status(user: User, state: Any, request: Request) -> str:
    return user.domain.status_of(state, request.subject)


def _alike(user: User, request: Request, user_id: str) -> list[Request]:
    """Requests of the same kind about other subjects of `user_id`."""
    domain, first = user.domain, user.changes[0].before
    if request.kind.startswith("preview"):
        candidates: Iterable[Request] = map(domain.preview_of, user.changes) if user_id == user.user_id else ()
    elif request.subject == request.user_id:
        candidates = domain.requests(user_id, user_id)
    else:
        candidates = (r for subject in domain.subjects(first, user_id) for r in domain.requests(user_id, subject))
    return [other for other in candidates if other.kind == request.kind and other.subject != request.subject]


def context_of(user: User, side: Side) -> str:
    """The context in which the request is made in that state."""
    return user.domain.context(side.state, side.request.user_id, side.request.subject)
