"""What users of the shop ask, in which context, and what its tools answer."""

import ast
import re

from cachemend.datasets.tau_answers_retail import ABOUT_ORDER, ABOUT_USER, tell_output
from cachemend.datasets.tau_data import Action, Record, Retail
from cachemend.datasets.tau_request import Change, Request, preview, questions_about
from cachemend.datasets.tau_text import inline, lines
from cachemend.datasets.tau_tools_retail import call_retail

# The sentences of the instructions that ask for one call each.
_ASKS = re.compile(
    r"Cancel order #W\d+ because [a-z ]+\.|Return #W\d+ via \w+: .*?; (?=Cancel|Return|For|$)"
    r"|For #W\d+, change payment to \w+\.|For #W\d+, change address to \{.*?\} \(same as [^)]*\)\."
    r"|For #W\d+, (?:modify|exchange) .*?; via \w+\."
)
_OPTIONS = re.compile(r"\{[^}]*\}")


def asks_of(instruction: str) -> tuple[str, ...]:
    """The sentences of an instruction that each ask for one action, with the options in words."""
    return tuple(_OPTIONS.sub(_in_words, ask).strip().rstrip(";") for ask in _ASKS.findall(instruction))


def ask_for(action: Action) -> str:
    """A call in words, for instructions that do not ask sentence by sentence."""
    details = {key: value for key, value in action.arguments.items() if key != "order_id"}
    return f"For {action.arguments['order_id']}, {action.name.replace('_', ' ')}: {inline(details)}."


def subject_of(action: Action) -> str:
    """The order a call changes."""
    return str(action.arguments["order_id"])


def context(state: Retail, user_id: str, subject: str) -> str:
    """What the tools say of the user, of the user's orders and of the order asked about."""
    user = state.users[user_id]
    orders = {order_id: state.orders[order_id]["status"] for order_id in user["orders"]}
    about = {"user_id": user_id, "name": " ".join(user["name"].values()), "payment_methods": _methods(user)}
    text = lines({**about, "orders": orders})
    return text if subject == user_id else text + "\n" + lines(state.orders[subject], "order.")


def subjects(state: Retail, user_id: str) -> tuple[str, ...]:
    """The user's orders."""
    return tuple(state.users[user_id]["orders"])


def further_calls(state: Retail, user_id: str) -> tuple[Action, ...]:
    """Calls the user could well make next: cancel an order, send it to the user's address, return an item of it."""
    address = state.users[user_id]["address"]
    calls = []
    for order_id in subjects(state, user_id):
        order = state.orders[order_id]
        paid_with = order["payment_history"][0]["payment_method_id"]
        first = {"item_ids": [order["items"][0]["item_id"]], "payment_method_id": paid_with}
        calls += [
            Action("cancel_pending_order", {"order_id": order_id, "reason": "no longer needed"}),
            Action("modify_pending_order_address", {"order_id": order_id, **address}),
            Action("return_delivered_order_items", {"order_id": order_id, **first}),
        ]
    return tuple(calls)


def status_of(state: Retail, subject: str) -> str:
    """The status of an order."""
    return str(state.orders[subject]["status"])


def requests(user_id: str, subject: str) -> tuple[Request, ...]:
    """The questions about an order, or about the account where `subject` is the user."""
    return questions_about(subject, user_id, ABOUT_USER if subject == user_id else ABOUT_ORDER)


def preview_of(change: Change) -> Request:
    """The question what a change would do."""
    return preview(change, call_retail, tell_output)


def _in_words(match: re.Match[str]) -> str:
    options = ast.literal_eval(match.group())
    return inline({key: value for key, value in options.items() if key != "order_id"}) or "the same"


def _methods(user: Record) -> Record:
    return {
        key: inline({k: v for k, v in method.items() if k not in ("id", "source")}) or method["source"]
        for key, method in user["payment_methods"].items()
    }
