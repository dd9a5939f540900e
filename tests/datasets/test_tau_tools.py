"""The re-implemented tools: by hand on a small shop and airline, and against the right actions of every task."""

import copy
import json
import re
from collections import Counter
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cachemend.datasets.tau_calculating import calculate_text
from cachemend.datasets.tau_data import Airline, Retail, Task, load_airline, load_retail, load_tasks
from cachemend.datasets.tau_tool import ToolError
from cachemend.datasets.tau_tools_airline import call_airline
from cachemend.datasets.tau_tools_retail import MODIFIED, call_retail, net_payments
from cachemend.repair_core.errors import InputError

from support.tau_folder import ELSEWHERE, airline, retail, write_folder

SHARED = Path(__file__).resolve().parents[2] / "../shared/data"
on_real_data = pytest.mark.skipif(
    not (SHARED / "tau-bench").is_dir(), reason="tau-bench is not in a data folder beside this checkout"
)


@pytest.fixture
def shop() -> Retail:
    return Retail(**retail())


@pytest.fixture
def line() -> Airline:
    return Airline(**airline())


def balance(state: Retail, card: str, user_id: str = "ann_lee_1") -> float:
    return float(state.users[user_id]["payment_methods"][card]["balance"])


def test_cancelling_pays_back_where_it_came_from_and_changes_nothing_else(shop: Retail) -> None:
    before = copy.deepcopy(shop)
    call = {"order_id": "#W2", "reason": "ordered by mistake"}
    done = call_retail(shop, "cancel_pending_order", call)
    assert not done.failed
    assert done.output["status"] == "cancelled"
    assert done.output["cancel_reason"] == "ordered by mistake"
    assert net_payments(done.output) == {"gift_card_1": 0.0}
    assert balance(done.state, "gift_card_1") == 150.2
    assert shop == before
    assert all(done.state.orders[key] is shop.orders[key] for key in shop.orders if key != "#W2")
    assert done.state.products is shop.products

    again = call_retail(done.state, "cancel_pending_order", call)
    assert (again.output, again.failed) == ("Error: non-pending order cannot be cancelled", True)
    assert again.state is done.state


def test_a_card_payment_is_refunded_without_a_balance(shop: Retail) -> None:
    done = call_retail(shop, "cancel_pending_order", {"order_id": "#W1", "reason": "no longer needed"})
    assert done.state.users["ann_lee_1"]["payment_methods"] == shop.users["ann_lee_1"]["payment_methods"]
    assert done.output["payment_history"][-1] == {
        "transaction_type": "refund",
        "amount": 70.2,
        "payment_method_id": "credit_card_1",
    }


def test_another_payment_method_then_a_cancellation_refunds_only_the_second(shop: Retail) -> None:
    paid = call_retail(shop, "modify_pending_order_payment", {"order_id": "#W1", "payment_method_id": "gift_card_1"})
    assert balance(paid.state, "gift_card_1") == 9.8
    assert net_payments(paid.output) == {"credit_card_1": 0.0, "gift_card_1": 70.2}
    done = call_retail(paid.state, "cancel_pending_order", {"order_id": "#W1", "reason": "no longer needed"})
    assert net_payments(done.output) == {"credit_card_1": 0.0, "gift_card_1": 0.0}
    assert balance(done.state, "gift_card_1") == 80
    assert len(done.output["payment_history"]) == 4


def test_modified_items_cost_their_difference_once(shop: Retail) -> None:
    call = {
        "order_id": "#W1",
        "item_ids": ["i1", "i1"],
        "new_item_ids": ["i3", "i2"],
        "payment_method_id": "gift_card_1",
    }
    done = call_retail(shop, "modify_pending_order_items", call)
    assert [item["item_id"] for item in done.output["items"]] == ["i3", "i2", "i2"]
    assert done.output["status"] == MODIFIED
    assert balance(done.state, "gift_card_1") == pytest.approx(80 - (35.25 + 30 - 2 * 20.1))
    assert sum(net_payments(done.output).values()) == pytest.approx(35.25 + 30 + 30)
    assert call_retail(done.state, "modify_pending_order_items", call).failed
    assert call_retail(done.state, "modify_pending_order_address", {"order_id": "#W1", **ELSEWHERE}).failed


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("modify_pending_order_items", {"order_id": "#W9"}, "order not found"),
        ("modify_pending_order_items", {"order_id": "#W3"}, "non-pending order cannot be modified"),
        ("modify_pending_order_items", {"new_item_ids": []}, "the number of items to be exchanged should match"),
        ("modify_pending_order_items", {"item_ids": ["i9"]}, "item i9 not found in the order"),
        ("modify_pending_order_items", {"new_item_ids": ["i4"]}, "new item i4 not found or available"),
        ("modify_pending_order_items", {"payment_method_id": "paypal_1"}, "payment method not found"),
        ("modify_pending_order_items", {"payment_method_id": "gift_card_2"}, "insufficient gift card balance"),
        ("exchange_delivered_order_items", {}, "non-delivered order cannot be exchanged"),
    ],
)
def test_what_the_shop_refuses(shop: Retail, name: str, changes: dict[str, Any], message: str) -> None:
    call = {"order_id": "#W1", "item_ids": ["i1"], "new_item_ids": ["i3"], "payment_method_id": "credit_card_1"}
    assert call_retail(shop, name, call | changes) == (shop, f"Error: {message}", True)


def test_more_of_an_item_than_the_order_has_is_refused(shop: Retail) -> None:
    call = {"order_id": "#W3", "item_ids": ["i1", "i1", "i1"], "payment_method_id": "credit_card_1"}
    assert call_retail(shop, "return_delivered_order_items", call).output == "Error: item i1 not found in the order"
    taken = call_retail(shop, "return_delivered_order_items", call | {"item_ids": ["i2", "i1"]})
    assert (taken.output["status"], taken.output["return_items"]) == ("return requested", ["i1", "i2"])


def test_a_refund_goes_to_the_original_method_or_a_gift_card(shop: Retail) -> None:
    call = {"order_id": "#W5", "item_ids": ["i1"]}
    assert call_retail(shop, "return_delivered_order_items", call | {"payment_method_id": "credit_card_1"}).failed
    for method in ("gift_card_1", "gift_card_2"):
        assert not call_retail(shop, "return_delivered_order_items", call | {"payment_method_id": method}).failed


def test_an_exchange_pays_nothing_yet(shop: Retail) -> None:
    call = {"order_id": "#W3", "item_ids": ["i2"], "new_item_ids": ["i3"], "payment_method_id": "gift_card_1"}
    done = call_retail(shop, "exchange_delivered_order_items", call)
    assert done.output["exchange_price_difference"] == 5.25
    assert done.output["items"] == shop.orders["#W3"]["items"]
    assert balance(done.state, "gift_card_1") == 80


def test_an_unknown_tool_is_a_mistake_of_the_program(shop: Retail, line: Airline) -> None:
    with pytest.raises(ValueError, match="tool 'think' is not one of"):
        call_retail(shop, "think", {"thought": ""})
    with pytest.raises(ValueError, match="tool 'think' is not one of"):
        call_airline(line, "think", {"thought": ""})


def booking(**changes: Any) -> dict[str, Any]:
    return {
        "user_id": "dee_orr_4",
        "origin": "AAA",
        "destination": "BBB",
        "flight_type": "one_way",
        "cabin": "economy",
        "flights": [{"flight_number": "F1", "date": "2024-05-20"}],
        "passengers": [{"first_name": "Dee", "last_name": "Orr", "dob": "1990-01-01"}] * 2,
        "payment_methods": [
            {"payment_id": "certificate_8", "amount": 150},
            {"payment_id": "gift_card_7", "amount": 100},
            {"payment_id": "credit_card_9", "amount": 80},
        ],
        "total_baggages": 3,
        "nonfree_baggages": 1,
        "insurance": "yes",
    } | changes


def test_a_booking_costs_seats_bags_and_insurance_and_uses_up_certificates(line: Airline) -> None:
    done = call_airline(line, "book_reservation", booking())  # 2 * 110 + 50 + 2 * 30 = 330
    assert not done.failed
    made = done.output["reservation_id"]
    user = done.state.users["dee_orr_4"]
    assert user["reservations"] == ["RAAAAA", "RBBBBB", made]
    assert set(user["payment_methods"]) == {"gift_card_7", "credit_card_9"}
    assert user["payment_methods"]["gift_card_7"]["amount"] == 0
    assert done.state.reservations[made]["flights"][0]["price"] == 110
    assert len(made) == 6
    assert line.reservations.keys() == {"RAAAAA", "RBBBBB"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"insurance": "no"}, "payment amount does not add up, total price is 270, but paid 330"),
        ({"cabin": "business"}, "not enough seats on flight F1"),
        ({"cabin": "first"}, "cabin must be one of basic_economy, economy, business"),
        ({"flights": [{"flight_number": "F1", "date": "2024-05-21"}]}, "flight F1 not available on date 2024-05-21"),
        ({"flights": [{"flight_number": "F9", "date": "2024-05-20"}]}, "flight F9 not found"),
        ({"payment_methods": [{"payment_id": "gift_card_7", "amount": 330}]}, "insufficient gift card balance"),
        (
            {"payment_methods": [{"payment_id": "certificate_8", "amount": 330}]},
            "not enough balance in payment method certificate_8",
        ),
        ({"user_id": "nobody"}, "user not found"),
    ],
)
def test_what_a_booking_is_refused_for(line: Airline, changes: dict[str, Any], message: str) -> None:
    assert call_airline(line, "book_reservation", booking(**changes)) == (line, f"Error: {message}", True)


def test_a_kept_leg_keeps_its_price_and_a_new_one_costs_todays(line: Airline) -> None:
    flights = [{"flight_number": number, "date": "2024-05-20"} for number in ("F1", "F3")]
    call = {"reservation_id": "RAAAAA", "cabin": "economy", "flights": flights, "payment_id": "gift_card_7"}
    done = call_airline(line, "update_reservation_flights", call)
    assert [leg["price"] for leg in done.output["flights"]] == [90, 80]
    assert done.output["payment_history"][-1] == {"payment_id": "gift_card_7", "amount": 2 * (80 - 60)}
    assert done.state.users["dee_orr_4"]["payment_methods"]["gift_card_7"]["amount"] == 60
    # In another cabin no leg is kept.
    lower = call_airline(line, "update_reservation_flights", call | {"cabin": "basic_economy"})
    assert [leg["price"] for leg in lower.output["flights"]] == [100, 70]
    with_certificate = call_airline(line, "update_reservation_flights", call | {"payment_id": "certificate_8"})
    assert with_certificate.output == "Error: certificate cannot be used to update reservation"


def test_bags_passengers_cancellation_and_certificates_of_the_airline(line: Airline) -> None:
    bags = {"reservation_id": "RAAAAA", "total_baggages": 3, "nonfree_baggages": 1, "payment_id": "gift_card_7"}
    done = call_airline(line, "update_reservation_baggages", bags)
    assert (done.output["total_baggages"], done.output["payment_history"][-1]["amount"]) == (3, 50)
    one = {"reservation_id": "RAAAAA", "passengers": [{"first_name": "A", "last_name": "B", "dob": "1990-01-01"}]}
    refused = call_airline(line, "update_reservation_passengers", one)
    assert refused.output == "Error: number of passengers does not match"
    cancelled = call_airline(done.state, "cancel_reservation", {"reservation_id": "RAAAAA"})
    assert sum(entry["amount"] for entry in cancelled.output["payment_history"]) == 0
    assert call_airline(cancelled.state, "update_reservation_baggages", bags).failed
    sent = call_airline(line, "send_certificate", {"user_id": "dee_orr_4", "amount": 50})
    [new] = sent.state.users["dee_orr_4"]["payment_methods"].keys() - line.users["dee_orr_4"]["payment_methods"].keys()
    assert sent.state.users["dee_orr_4"]["payment_methods"][new]["amount"] == 50


def test_only_flights_that_can_be_booked_are_found(line: Airline) -> None:
    def search(date: str) -> list[str]:
        call = {"origin": "BBB", "destination": "CCC", "date": date}
        return [flight["flight_number"] for flight in call_airline(line, "search_direct_flight", call).output]

    assert search("2024-05-20") == ["F2", "F3"]
    assert search("2024-05-21") == search("2030-01-01") == []


numbers = st.integers(0, 999).map(str)
expressions = st.recursive(
    numbers,
    lambda inner: st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(expressions)
def test_the_calculator_agrees_with_exact_fractions(expression: str) -> None:
    exact = re.sub(r"\d+", r"Fraction(\g<0>)", expression)
    try:
        value = eval(exact, {"Fraction": Fraction})
    except ZeroDivisionError:
        return
    assert float(calculate_text(expression)) == pytest.approx(float(value), abs=0.0051, rel=1e-9)


@pytest.mark.parametrize("expression", ["__import__('os')", "2 ** 9", "1 +", "1 / 0", "True + 1", "a", "(" * 500, ""])
def test_the_calculator_refuses_all_but_arithmetic(expression: str) -> None:
    with pytest.raises(ToolError):
        calculate_text(expression)


def test_files_of_another_form_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"users\.json does not exist"):
        load_retail(tmp_path)
    with pytest.raises(InputError, match=r"tau-bench/retail/tasks_\*.json"):
        load_tasks(tmp_path, "retail")
    write_folder(tmp_path)
    assert len(load_tasks(tmp_path, "retail")) == 4
    (tmp_path / "tau-bench/retail/tasks_train.json").write_text('[{"user_id": 1}]')
    with pytest.raises(InputError, match="no list of tau-bench tasks"):
        load_tasks(tmp_path, "retail")
    (tmp_path / "tau-bench/airline/data/users.json").write_text("[]")
    with pytest.raises(InputError, match="must be an object of records"):
        load_airline(tmp_path)


@lru_cache(maxsize=1)
def real() -> tuple[Retail, tuple[Task, ...], Airline, tuple[Task, ...]]:
    return load_retail(SHARED), load_tasks(SHARED, "retail"), load_airline(SHARED), load_tasks(SHARED, "airline")


def short_of_money(state: Retail, call: dict[str, Any]) -> bool:
    """Whether the call needs more than its gift card holds, told from the files alone."""
    order = state.orders[call["order_id"]]
    card = state.users[order["user_id"]]["payment_methods"][call["payment_method_id"]]
    if "new_item_ids" in call:
        prices = {item["item_id"]: item["price"] for item in order["items"]}
        new = {key: v["price"] for product in state.products.values() for key, v in product["variants"].items()}
        needed = sum(new[key] for key in call["new_item_ids"]) - sum(prices[key] for key in call["item_ids"])
    else:
        needed = sum(item["price"] for item in order["items"])
    return bool(card["source"] == "gift_card" and card["balance"] < needed)


@on_real_data
def test_every_right_action_of_the_shop_succeeds_but_for_gift_cards_that_hold_too_little() -> None:
    shop, tasks, *_ = real()
    before = json.dumps(shop)
    refused: Counter[str] = Counter()
    clean = 0
    for task in tasks:
        state, failures = shop, 0
        for action in task.actions:
            done = call_retail(state, action.name, action.arguments)
            if done.failed:
                assert done.output == "Error: insufficient gift card balance"
                assert short_of_money(state, action.arguments)
                refused[action.name] += 1
            failures += done.failed
            state = done.state
        clean += not failures
    assert (len(tasks), clean) == (520, 501)
    assert refused == {
        "modify_pending_order_payment": 9,
        "modify_pending_order_items": 8,
        "exchange_delivered_order_items": 3,
    }
    assert json.dumps(shop) == before


@on_real_data
def test_money_is_kept_by_every_right_action_of_the_shop() -> None:
    shop, tasks, *_ = real()
    seen: Counter[str] = Counter()
    for task in tasks:
        state = shop
        for action in task.actions:
            done = call_retail(state, action.name, action.arguments)
            if not done.failed:
                order, was = done.output, state.orders[action.arguments["order_id"]]
                seen[action.name] += 1
                held = 0 if order["status"] == "cancelled" else sum(item["price"] for item in order["items"])
                assert sum(net_payments(order).values()) == pytest.approx(held, abs=0.011)
                # What left an order for a gift card is on it, and the other way round.
                for key, method in done.state.users[order["user_id"]]["payment_methods"].items():
                    if method["source"] == "gift_card":
                        gained = method["balance"] - state.users[order["user_id"]]["payment_methods"][key]["balance"]
                        paid = net_payments(order).get(key, 0) - net_payments(was).get(key, 0)
                        assert gained == pytest.approx(-paid, abs=1e-6)
                        assert method["balance"] >= 0
            state = done.state
    assert len(seen) == 6
    assert min(seen.values()) > 25


@on_real_data
def test_every_right_action_of_the_airline_succeeds_and_gives_the_outputs_the_tasks_name() -> None:
    _, _, line, tasks = real()
    before = json.dumps(line)
    with_outputs = 0
    for task in tasks:
        state, results = line, []
        for action in task.actions:
            done = call_airline(state, action.name, action.arguments)
            assert not done.failed, (task.task_id, action.name, done.output)
            results.append((action.name, done.output))
            state = done.state
        if task.outputs:
            with_outputs += 1
            assert set(task.outputs) <= told(line, state, task, results)
    assert (len(tasks), with_outputs) == (50, 4)
    assert json.dumps(line) == before


def told(before: Airline, after: Airline, task: Task, results: list[tuple[str, Any]]) -> set[str]:
    """The sums the tasks ask for, from the tools' outputs and states."""
    methods = before.users[task.user_id]["payment_methods"].values()
    sums = [sum(m["amount"] for m in methods if m["source"] == source) for source in ("gift_card", "certificate")]
    booked = [output for name, output in results if name == "book_reservation"]
    sums.append(
        sum(p["amount"] for b in booked for p in b["payment_history"] if p["payment_id"].startswith("credit_card"))
    )
    sums.append(
        sum(entry["amount"] for r in before.reservations.values() for entry in r["payment_history"])
        - sum(entry["amount"] for r in after.reservations.values() for entry in r["payment_history"])
    )
    for name, output in results:
        if name == "get_reservation_details":
            # The policy page's allowance: by membership, one more in each better cabin; gold members the same in both.
            member = ("regular", "silver", "gold").index(before.users[task.user_id]["membership"])
            cabin = ("basic_economy", "economy", "business").index(output["cabin"])
            sums.append(min(3, member + cabin) * len(output["passengers"]))
    return set(map(str, sums))


@on_real_data
def test_a_call_copies_no_record_it_does_not_change() -> None:
    shop, tasks, line, flights = real()
    for task in tasks[:40]:
        for action in task.actions:
            after = call_retail(shop, action.name, action.arguments).state
            assert sum(after.orders[key] is not shop.orders[key] for key in shop.orders) <= 1
            assert sum(after.users[key] is not shop.users[key] for key in shop.users) <= 1
            assert after.products is shop.products
    for task in flights:
        for action in task.actions:
            assert call_airline(line, action.name, action.arguments).state.flights is line.flights
