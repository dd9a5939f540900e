"""The shop's tools, as its tool schemas and its policy page describe them.

Each tool takes a state and named arguments and returns the new state and its output; a call that is refused raises
`ToolError`. `call_retail` turns that into the text an agent would read.
"""

from collections import Counter
from collections.abc import Sequence

from cachemend.datasets.tau_data import Record, Retail
from cachemend.datasets.tau_money import cents, charged, payment_method
from cachemend.datasets.tau_tool import Outcome, ToolError, Tools, call_tool, found

REASONS = ("no longer needed", "ordered by mistake")
# After its items were modified, an order can neither be modified again nor cancelled: it is "pending" no more.
MODIFIED = "pending (items modified)"
_BALANCE = "balance"


def get_user_details(state: Retail, /, *, user_id: str) -> tuple[Retail, Record]:
    """The user's record."""
    return state, found(state.users, user_id, "user")


def get_order_details(state: Retail, /, *, order_id: str) -> tuple[Retail, Record]:
    """The order's record."""
    return state, found(state.orders, order_id, "order")


def cancel_pending_order(state: Retail, /, *, order_id: str, reason: str) -> tuple[Retail, Record]:
    """Cancel an order; what was paid goes back where it came from, to a gift card at once."""
    order = _order_in(state, order_id, "pending", "cancelled")
    if reason not in REASONS:
        raise ToolError("invalid reason")
    paid = net_payments(order)
    refunds = [_transaction("refund", amount, method_id) for method_id, amount in paid.items() if amount > 0]
    user = charged(state.users[order["user_id"]], {m: -a for m, a in paid.items() if a > 0}, _BALANCE)
    changed = {**order, "status": "cancelled", "cancel_reason": reason}
    return _with(state, user, {**changed, "payment_history": order["payment_history"] + refunds})


def modify_pending_order_address(state: Retail, /, *, order_id: str, **address: str) -> tuple[Retail, Record]:
    """Send an order elsewhere; `address` has the fields of an order's address."""
    order = _order_in(state, order_id, "pending", "modified")
    if set(address) != set(order["address"]):
        raise ToolError("the address must have " + ", ".join(order["address"]))
    return _with(state, state.users[order["user_id"]], {**order, "address": address})


def modify_pending_order_payment(state: Retail, /, *, order_id: str, payment_method_id: str) -> tuple[Retail, Record]:
    """Pay an order by another method; the first payment goes back, to a gift card at once."""
    order = _order_in(state, order_id, "pending", "modified")
    user = state.users[order["user_id"]]
    payment_method(user, payment_method_id)
    history = order["payment_history"]
    if len(history) != 1 or history[0]["transaction_type"] != "payment":
        raise ToolError("there should be exactly one payment for a pending order")
    before, amount = history[0]["payment_method_id"], history[0]["amount"]
    if before == payment_method_id:
        raise ToolError("the new payment method should be different from the current one")
    user = charged(user, {payment_method_id: amount, before: -amount}, _BALANCE)
    moved = [_transaction("payment", amount, payment_method_id), _transaction("refund", amount, before)]
    return _with(state, user, {**order, "payment_history": history + moved})


def modify_pending_order_items(
    state: Retail, /, *, order_id: str, item_ids: Sequence[str], new_item_ids: Sequence[str], payment_method_id: str
) -> tuple[Retail, Record]:
    """Change items of an order to other options of the same products and settle the difference."""
    order = _order_in(state, order_id, "pending", "modified")
    items, difference = _replaced(state, order, item_ids, new_item_ids)
    user = charged(state.users[order["user_id"]], {payment_method_id: difference}, _BALANCE)
    kind = "payment" if difference > 0 else "refund"
    settled = [_transaction(kind, abs(difference), payment_method_id)] if difference else []
    changed = {**order, "status": MODIFIED, "items": items, "payment_history": order["payment_history"] + settled}
    return _with(state, user, changed)


def return_delivered_order_items(
    state: Retail, /, *, order_id: str, item_ids: Sequence[str], payment_method_id: str
) -> tuple[Retail, Record]:
    """Ask for items to be taken back; the refund goes to the original payment method or to a gift card."""
    order = _order_in(state, order_id, "delivered", "returned")
    method = payment_method(state.users[order["user_id"]], payment_method_id)
    if method["source"] != "gift_card" and payment_method_id != order["payment_history"][0]["payment_method_id"]:
        raise ToolError("payment method should be either the original payment method or a gift card")
    _require_items(order, item_ids)
    changed = {
        **order,
        "status": "return requested",
        "return_items": sorted(item_ids),
        "return_payment_method_id": payment_method_id,
    }
    return _with(state, state.users[order["user_id"]], changed)


def exchange_delivered_order_items(
    state: Retail, /, *, order_id: str, item_ids: Sequence[str], new_item_ids: Sequence[str], payment_method_id: str
) -> tuple[Retail, Record]:
    """Ask for items to be exchanged for other options of the same products; nothing is paid before they come back."""
    order = _order_in(state, order_id, "delivered", "exchanged")
    _, difference = _replaced(state, order, item_ids, new_item_ids)
    charged(state.users[order["user_id"]], {payment_method_id: difference}, _BALANCE)
    changed = {
        **order,
        "status": "exchange requested",
        "exchange_items": sorted(item_ids),
        "exchange_new_items": sorted(new_item_ids),
        "exchange_payment_method_id": payment_method_id,
        "exchange_price_difference": difference,
    }
    return _with(state, state.users[order["user_id"]], changed)


TOOLS: Tools = {
    tool.__name__: tool
    for tool in (
        get_user_details,
        get_order_details,
        cancel_pending_order,
        modify_pending_order_address,
        modify_pending_order_payment,
        modify_pending_order_items,
        return_delivered_order_items,
        exchange_delivered_order_items,
    )
}


def call_retail(state: Retail, name: str, arguments: Record) -> Outcome:
    """Call a tool; a refusal is an outcome that leaves the state as it was.

    Raises:
        ValueError: no tool of that name is implemented.
    """
    return call_tool(TOOLS, state, name, arguments)


def net_payments(order: Record) -> dict[str, float]:
    """What each payment method has paid for an order, less what went back to it."""
    paid: dict[str, float] = {}
    for entry in order["payment_history"]:
        sign = 1 if entry["transaction_type"] == "payment" else -1
        method_id = entry["payment_method_id"]
        paid[method_id] = cents(paid.get(method_id, 0.0) + sign * entry["amount"])
    return paid


def _order_in(state: Retail, order_id: str, status: str, done: str) -> Record:
    order = found(state.orders, order_id, "order")
    if order["status"] != status:
        raise ToolError(f"non-{status} order cannot be {done}")
    return order


def _transaction(kind: str, amount: float, method_id: str) -> Record:
    return {"transaction_type": kind, "amount": cents(amount), "payment_method_id": method_id}


def _with(state: Retail, user: Record, order: Record) -> tuple[Retail, Record]:
    users, orders = {**state.users, order["user_id"]: user}, {**state.orders, order["order_id"]: order}
    return state._replace(users=users, orders=orders), order


def _require_items(order: Record, item_ids: Sequence[str]) -> None:
    missing = Counter(item_ids) - Counter(item["item_id"] for item in order["items"])
    if missing:
        raise ToolError(f"item {min(missing)} not found in the order")


def _replaced(
    state: Retail, order: Record, item_ids: Sequence[str], new_item_ids: Sequence[str]
) -> tuple[list[Record], float]:
    """The order's items with some replaced, and by how much they cost more."""
    if len(item_ids) != len(new_item_ids):
        raise ToolError("the number of items to be exchanged should match")
    _require_items(order, item_ids)
    items, difference, taken = list(order["items"]), 0.0, set[int]()
    for item_id, new_id in zip(item_ids, new_item_ids, strict=True):
        place = next(i for i, item in enumerate(items) if item["item_id"] == item_id and i not in taken)
        taken.add(place)
        product = state.products[items[place]["product_id"]]
        variant = product["variants"].get(new_id)
        if variant is None or not variant["available"]:
            raise ToolError(f"new item {new_id} not found or available")
        difference += variant["price"] - items[place]["price"]
        items[place] = {**items[place], "item_id": new_id, "price": variant["price"], "options": variant["options"]}
    return items, cents(difference)
