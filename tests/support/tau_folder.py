"""A tau-bench of two domains, small enough to check by hand, in the publisher's form."""

import json
from pathlib import Path
from typing import Any

ADDRESS = {
    "address1": "1 Elm Street",
    "address2": "",
    "city": "Austin",
    "country": "USA",
    "state": "TX",
    "zip": "78701",
}
ELSEWHERE = {**ADDRESS, "address1": "2 Oak Street"}


def _item(item_id: str, price: float, color: str) -> dict[str, Any]:
    return {"name": "Lamp", "product_id": "p1", "item_id": item_id, "price": price, "options": {"color": color}}


def _variant(item_id: str, price: float, color: str, available: bool) -> dict[str, Any]:
    return {"item_id": item_id, "options": {"color": color}, "available": available, "price": price}


def _order(order_id: str, user_id: str, status: str, paid_with: str) -> dict[str, Any]:
    return {
        "order_id": order_id,
        "user_id": user_id,
        "address": ADDRESS,
        "items": [_item("i1", 20.1, "red"), _item("i1", 20.1, "red"), _item("i2", 30.0, "blue")],
        "fulfillments": [],
        "status": status,
        "payment_history": [{"transaction_type": "payment", "amount": 70.2, "payment_method_id": paid_with}],
    }


def _shopper(user_id: str, orders: list[str]) -> dict[str, Any]:
    first, last = user_id.split("_")[:2]
    return {
        "name": {"first_name": first, "last_name": last},
        "address": ELSEWHERE,
        "email": f"{user_id}@example.com",
        "payment_methods": {
            "credit_card_1": {"source": "credit_card", "brand": "visa", "last_four": "1111", "id": "credit_card_1"},
            "gift_card_1": {"source": "gift_card", "balance": 80, "id": "gift_card_1"},
            "gift_card_2": {"source": "gift_card", "balance": 5, "id": "gift_card_2"},
        },
        "orders": orders,
    }


def retail() -> dict[str, Any]:
    """The shop's three files."""
    return {
        "users": {
            "ann_lee_1": _shopper("ann_lee_1", ["#W1", "#W2", "#W3"]),
            "bob_ray_2": _shopper("bob_ray_2", ["#W4", "#W5"]),
            "cy_fox_3": _shopper("cy_fox_3", ["#W6"]),
        },
        "orders": {
            "#W1": _order("#W1", "ann_lee_1", "pending", "credit_card_1"),
            "#W2": _order("#W2", "ann_lee_1", "pending", "gift_card_1"),
            "#W3": _order("#W3", "ann_lee_1", "delivered", "credit_card_1"),
            "#W4": _order("#W4", "bob_ray_2", "pending", "credit_card_1"),
            "#W5": _order("#W5", "bob_ray_2", "delivered", "gift_card_2"),
            "#W6": _order("#W6", "cy_fox_3", "pending", "credit_card_1"),
        },
        "products": {
            "p1": {
                "name": "Lamp",
                "product_id": "p1",
                "variants": {
                    "i1": _variant("i1", 20.1, "red", True),
                    "i2": _variant("i2", 30.0, "blue", True),
                    "i3": _variant("i3", 35.25, "green", True),
                    "i4": _variant("i4", 9.0, "grey", False),
                },
            }
        },
    }


def retail_tasks() -> list[dict[str, Any]]:
    """Four tasks of two users; one call is refused."""
    return [
        _task("ann_lee_1", "Cancel order #W1 because no longer needed.", _cancel("#W1")),
        _task("ann_lee_1", "Do not keep the second order.", _cancel("#W2"), _cancel("#W2")),
        _task("bob_ray_2", "Return it.", _call("return_delivered_order_items", "#W5", ["i2"], "gift_card_1")),
        _task("bob_ray_2", "Cancel order #W4 because no longer needed.", _cancel("#W4")),
    ]


def _task(user_id: str, ask: str, *actions: dict[str, Any]) -> dict[str, Any]:
    instruction = f"Your name is {user_id}. You are calm. {ask}"
    return {"annotator": "", "user_id": user_id, "instruction": instruction, "actions": [*actions], "outputs": []}


def _cancel(order_id: str) -> dict[str, Any]:
    return {"name": "cancel_pending_order", "kwargs": {"order_id": order_id, "reason": "no longer needed"}}


def _call(name: str, order_id: str, item_ids: list[str], method: str) -> dict[str, Any]:
    return {"name": name, "kwargs": {"order_id": order_id, "item_ids": item_ids, "payment_method_id": method}}


def _flight(number: str, origin: str, destination: str, price: int) -> dict[str, Any]:
    day = {
        "status": "available",
        "available_seats": {"basic_economy": 3, "economy": 2, "business": 1},
        "prices": {"basic_economy": price, "economy": price + 10, "business": price + 100},
    }
    return {
        "flight_number": number,
        "origin": origin,
        "destination": destination,
        "scheduled_departure_time_est": "06:00:00",
        "scheduled_arrival_time_est": "08:00:00",
        "dates": {"2024-05-20": day, "2024-05-21": {"status": "cancelled"}},
    }


def _reservation(reservation_id: str) -> dict[str, Any]:
    leg = {"origin": "AAA", "destination": "BBB", "flight_number": "F1", "date": "2024-05-20", "price": 90}
    return {
        "reservation_id": reservation_id,
        "user_id": "dee_orr_4",
        "origin": "AAA",
        "destination": "CCC",
        "flight_type": "one_way",
        "cabin": "economy",
        "flights": [leg, {**leg, "origin": "BBB", "destination": "CCC", "flight_number": "F2", "price": 60}],
        "passengers": [
            {"first_name": "Dee", "last_name": "Orr", "dob": "1990-01-01"},
            {"first_name": "Eli", "last_name": "Orr", "dob": "1991-01-01"},
        ],
        "payment_history": [{"payment_id": "gift_card_7", "amount": 300}],
        "created_at": "2024-05-01T00:00:00",
        "total_baggages": 1,
        "nonfree_baggages": 0,
        "insurance": "no",
    }


def airline() -> dict[str, Any]:
    """The airline's three files."""
    methods = {
        "gift_card_7": {"source": "gift_card", "amount": 100, "id": "gift_card_7"},
        "certificate_8": {"source": "certificate", "amount": 150, "id": "certificate_8"},
        "credit_card_9": {"source": "credit_card", "brand": "visa", "last_four": "9999", "id": "credit_card_9"},
    }
    user = {
        "name": {"first_name": "Dee", "last_name": "Orr"},
        "address": ADDRESS,
        "email": "dee@example.com",
        "dob": "1990-01-01",
        "payment_methods": methods,
        "saved_passengers": [],
        "membership": "gold",
        "reservations": ["RAAAAA", "RBBBBB"],
    }
    return {
        "users": {"dee_orr_4": user},
        "reservations": {name: _reservation(name) for name in ("RAAAAA", "RBBBBB")},
        "flights": {
            "F1": _flight("F1", "AAA", "BBB", 100),
            "F2": _flight("F2", "BBB", "CCC", 40),
            "F3": _flight("F3", "BBB", "CCC", 70),
        },
    }


def airline_tasks() -> list[dict[str, Any]]:
    """One task: a cancellation."""
    cancel = {"name": "cancel_reservation", "kwargs": {"reservation_id": "RAAAAA"}}
    return [_task("dee_orr_4", "You want to cancel your trip.", cancel)]


def write_folder(folder: Path) -> Path:
    """Write both domains into a data folder."""
    domains = {
        "retail": (retail(), retail_tasks(), "tasks_train"),
        "airline": (airline(), airline_tasks(), "tasks_test"),
    }
    for name, (files, tasks, title) in domains.items():
        data = folder / "tau-bench" / name / "data"
        data.mkdir(parents=True)
        for file, content in files.items():
            (data / f"{file}.json").write_text(json.dumps(content))
        (data.parent / f"{title}.json").write_text(json.dumps(tasks))
    return folder
