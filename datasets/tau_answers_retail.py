"""What the shop's tools answer to the questions of its users."""

from typing import Any

from cachemend.datasets.tau_data import Record, Retail
from cachemend.datasets.tau_request import Questions
from cachemend.datasets.tau_text import inline
from cachemend.datasets.tau_tools_retail import call_retail


def _order(state: Retail, order_id: str) -> Record:
    order: Record = call_retail(state, "get_order_details", {"order_id": order_id}).output
    return order


def _user(state: Retail, user_id: str) -> Record:
    user: Record = call_retail(state, "get_user_details", {"user_id": user_id}).output
    return user


def tell_output(output: Any) -> str:
    """A call's result: its error, or the order's status, payments and what it will hold or send back."""
    if isinstance(output, str):
        return output
    shown = {key: value for key, value in output.items() if key not in ("order_id", "user_id", "fulfillments")}
    details = "; ".join(f"{key.replace('_', ' ')} {inline(value)}" for key, value in shown.items())
    return f"Order {output['order_id']}: {details}"


def _tell_status(state: Retail, order_id: str) -> str:
    order = _order(state, order_id)
    reason = f", reason: {order['cancel_reason']}" if "cancel_reason" in order else ""
    return f"Order {order_id} is {order['status']}{reason}."


def _tell_items(state: Retail, order_id: str) -> str:
    order = _order(state, order_id)
    items = "; ".join(f"{i['name']} ({inline(i['options'])}), {i['price']:.2f}" for i in order["items"])
    moving = "".join(
        f" {key.replace('_', ' ')}: {inline(order[key])}."
        for key in ("return_items", "exchange_items", "exchange_new_items")
        if key in order
    )
    return f"Order {order_id} holds {items}.{moving}"


def _tell_address(state: Retail, order_id: str) -> str:
    return f"Order {order_id} goes to {inline(list(_order(state, order_id)['address'].values()))}."


def _tell_payments(state: Retail, order_id: str) -> str:
    history = _order(state, order_id)["payment_history"]
    entries = (f"{e['transaction_type']} of {e['amount']:.2f} with {e['payment_method_id']}" for e in history)
    return f"Order {order_id}: {'; '.join(entries)}."


def _tell_open(state: Retail, user_id: str) -> str:
    pending = [i for i in _user(state, user_id)["orders"] if _order(state, i)["status"].startswith("pending")]
    return f"Pending: {', '.join(pending) or 'none'}."


def _tell_balances(state: Retail, user_id: str) -> str:
    methods = _user(state, user_id)["payment_methods"].values()
    cards = [f"{m['id']}: {m['balance']:.2f}" for m in methods if m["source"] == "gift_card"]
    return f"Gift cards: {', '.join(cards) or 'none'}."


def _tell_statuses(state: Retail, user_id: str) -> str:
    return "; ".join(f"{i} is {_order(state, i)['status']}" for i in _user(state, user_id)["orders"]) + "."


ABOUT_ORDER: Questions = {
    "status": (
        _tell_status,
        (
            "What is the status of order {}?",
            "Can you tell me how order {} is doing?",
            "What is the status of the order I have open here?",
            "Please look up the current status of {}.",
        ),
    ),
    "items": (
        _tell_items,
        (
            "Which items are in order {}?",
            "What exactly does order {} contain?",
            "Which items are in the order I have open here?",
            "Please list what I get with {}, with the options.",
        ),
    ),
    "address": (
        _tell_address,
        (
            "Where is order {} being shipped to?",
            "What delivery address do you have for {}?",
            "Which address does the order I have open here go to?",
            "Please tell me the shipping address of order {}.",
        ),
    ),
    "payments": (
        _tell_payments,
        (
            "How was order {} paid?",
            "Which charges and refunds are there for {}?",
            "What was charged for the order I have open here?",
            "Please show me the payment history of order {}.",
        ),
    ),
}
ABOUT_USER: Questions = {
    "open orders": (
        _tell_open,
        (
            "Which of my orders are still pending?",
            "What orders of mine have not been processed yet?",
            "Do I have any pending orders?",
            "Please list my pending orders.",
        ),
    ),
    "gift cards": (
        _tell_balances,
        (
            "How much is left on my gift cards?",
            "What is my gift card balance?",
            "Do I have money on a gift card?",
            "Please tell me my gift card balances.",
        ),
    ),
    "all statuses": (
        _tell_statuses,
        (
            "What is the status of each of my orders?",
            "How are all my orders doing?",
            "Can you go through my orders and their status?",
            "Please list my orders with their status.",
        ),
    ),
}
