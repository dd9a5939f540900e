"""Money in tau-bench's two domains: amounts to the cent, and gift cards that hold a balance."""

from collections.abc import Mapping

from cachemend.datasets.tau_data import Record
from cachemend.datasets.tau_tool import ToolError


def cents(amount: float) -> float:
    """`amount` rounded to the cent, without a negative zero."""
    return round(amount, 2) + 0.0


def payment_method(user: Record, method_id: str) -> Record:
    """The user's payment method.

    Raises:
        ToolError: the user has no such method.
    """
    method: Record | None = user["payment_methods"].get(method_id)
    if method is None:
        raise ToolError("payment method not found")
    return method


def charged(user: Record, amounts: Mapping[str, float], balance: str) -> Record:
    """The user after paying `amounts` (negative ones are received) by method id.

    Only gift cards hold a balance; what goes to or from another method leaves the user as it is.

    Args:
        user: the user's record.
        amounts: payment method id -> amount.
        balance: the field of a gift card that holds its balance: "balance" in the shop, "amount" at the airline.

    Raises:
        ToolError: an unknown method, or a gift card with too little on it.
    """
    methods = dict(user["payment_methods"])
    for method_id, amount in amounts.items():
        method = payment_method(user, method_id)
        if method["source"] != "gift_card":
            continue
        left = cents(method[balance] - amount)
        if left < 0:
            raise ToolError("insufficient gift card balance")
        methods[method_id] = {**method, balance: left}
    return {**user, "payment_methods": methods}
