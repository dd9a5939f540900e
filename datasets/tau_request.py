"""A request about a record of tau-bench, and how to tell its answer from a state."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from cachemend.datasets.tau_data import Action, Record
from cachemend.datasets.tau_tool import Outcome


class Request(NamedTuple):
    """A question that can be asked in several wordings.

    Attributes:
        kind: the name of the question.
        subject: the id of the order, the reservation or, for questions about an account, the user.
        user_id: who asks.
        wordings: equal in meaning.
        answer: state -> the answer that holds in it, told from what the tools return.
    """

    kind: str
    subject: str
    user_id: str
    wordings: tuple[str, ...]
    answer: Callable[[Any], str]


class Change(NamedTuple):
    """A right action of a task that succeeded.

    Attributes:
        task_id: the task.
        user_id: the task's user.
        action: the call.
        subject: the order, reservation or user it changed.
        ask: the sentence of the task's instruction that asks for it, or the like made from the call.
        before: the state before.
        after: the state after.
    """

    task_id: str
    user_id: str
    action: Action
    subject: str
    ask: str
    before: Any
    after: Any


Call = Callable[[Any, str, Record], Outcome]
# Kind of question -> how its answer is told from a state and a subject's id, and its wordings with a place for the id.
Questions = Mapping[str, tuple[Callable[[Any, str], str], tuple[str, ...]]]

_PREVIEWS = (
    "Before I confirm, tell me what comes of this: {ask}",
    "What is the result if you do the following? {ask}",
    "{ask} Tell me first what it comes to.",
    "I am thinking of this: {ask} What would happen?",
)


def questions_about(subject: str, user_id: str, questions: Questions) -> tuple[Request, ...]:
    """Every question of a table, asked by a user about one subject."""
    return tuple(
        Request(kind, subject, user_id, tuple(w.format(subject) for w in wordings), partial(_told, tell, subject))
        for kind, (tell, wordings) in questions.items()
    )


def preview(change: Change, call: Call, tell: Callable[[Any], str]) -> Request:
    """The question what an action would do now; the policies have an agent say it before the user confirms.

    Args:
        change: the action and how the user asks for it.
        call: the domain's tools.
        tell: a call's output -> the text of the answer.
    """

    def answer(state: Any) -> str:
        return tell(call(state, change.action.name, change.action.arguments).output)

    wordings = tuple(wording.format(ask=change.ask) for wording in _PREVIEWS)
    return Request(f"preview {change.action.name}", change.subject, change.user_id, wordings, answer)


def _told(tell: Callable[[Any, str], str], subject: str, state: Any) -> str:
    return tell(state, subject)
