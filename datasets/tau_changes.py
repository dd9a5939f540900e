"""The right actions of tau-bench's tasks, executed one after another."""

from collections.abc import Callable
from typing import Any, NamedTuple

from cachemend.datasets import tau_requests_airline, tau_requests_retail
from cachemend.datasets.tau_data import Action, Task
from cachemend.datasets.tau_request import Call, Change, Request
from cachemend.datasets.tau_tools_airline import call_airline
from cachemend.datasets.tau_tools_retail import call_retail


class Domain(NamedTuple):
    """What the shop and the airline have in common: tools, questions and the context they are asked in."""

    name: str
    call: Call
    asks: Callable[[Task], tuple[str, ...]]
    subject_of: Callable[[Action], str]
    subjects: Callable[[Any, str], tuple[str, ...]]
    further_calls: Callable[[Any, str], tuple[Action, ...]]
    status_of: Callable[[Any, str], str]
    requests: Callable[[str, str], tuple[Request, ...]]
    preview_of: Callable[[Change], Request]
    context: Callable[[Any, str, str], str]


def _retail_asks(task: Task) -> tuple[str, ...]:
    found = tau_requests_retail.asks_of(task.instruction)
    return found if len(found) == len(task.actions) else tuple(map(tau_requests_retail.ask_for, task.actions))


RETAIL = Domain(
    "retail",
    call_retail,
    _retail_asks,
    tau_requests_retail.subject_of,
    tau_requests_retail.subjects,
    tau_requests_retail.further_calls,
    tau_requests_retail.status_of,
    tau_requests_retail.requests,
    tau_requests_retail.preview_of,
    tau_requests_retail.context,
)
AIRLINE = Domain(
    "airline",
    call_airline,
    lambda task: tuple(map(tau_requests_airline.ask_for, task.actions)),
    tau_requests_airline.subject_of,
    tau_requests_airline.subjects,
    tau_requests_airline.further_calls,
    tau_requests_airline.status_of,
    tau_requests_airline.requests,
    tau_requests_airline.preview_of,
    tau_requests_airline.context,
)


class Executed(NamedTuple):
    """A task carried out.

    Attributes:
        changes: the calls that changed the state, in order.
        refused: the calls the domain refused.
    """

    changes: tuple[Change, ...]
    refused: int


def execute(domain: Domain, state: Any, task: Task) -> Executed:
    """Carry out a task's right actions from `state` on; a refused one changes nothing and the next one follows."""
    changes, refused = [], 0
    for action, ask in zip(task.actions, domain.asks(task), strict=True):
        outcome = domain.call(state, action.name, action.arguments)
        refused += outcome.failed
        if outcome.state is not state:
            subject = domain.subject_of(action)
            changes.append(Change(task.task_id, task.user_id, action, subject, ask, state, outcome.state))
        state = outcome.state
    return Executed(tuple(changes), refused)
