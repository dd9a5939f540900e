"""Steps that the airline's tools share."""

import hashlib
from collections.abc import Mapping

from cachemend.datasets.tau_data import Airline, Record, Records
from cachemend.datasets.tau_money import charged, payment_method
from cachemend.datasets.tau_tool import ToolError, found

# The field of gift cards and certificates that holds what is left on them.
BALANCE = "amount"


def active(state: Airline, reservation_id: str) -> Record:
    """The reservation, which must not be cancelled."""
    reservation = found(state.reservations, reservation_id, "reservation")
    if reservation.get("status") == "cancelled":
        raise ToolError("the reservation is cancelled")
    return reservation


def leg_key(flight: Record) -> tuple[str, str]:
    """What tells a flight of a journey from others."""
    return flight["flight_number"], flight["date"]


def available_leg(state: Airline, wanted: Record, cabin: str, seats: int) -> Record:
    """A flight of a journey at its current price; there must be enough seats in the cabin."""
    number, date = leg_key(wanted)
    flight = found(state.flights, number, f"flight {number}")
    day = flight["dates"].get(date, {})
    if day.get("status") != "available":
        raise ToolError(f"flight {number} not available on date {date}")
    if cabin not in day["prices"]:
        raise ToolError(f"cabin must be one of {', '.join(day['prices'])}")
    if day["available_seats"][cabin] < seats:
        raise ToolError(f"not enough seats on flight {number}")
    return {
        "origin": flight["origin"],
        "destination": flight["destination"],
        "flight_number": number,
        "date": date,
        "price": day["prices"][cabin],
    }


def settled(state: Airline, changed: Record, payment_id: str, difference: float) -> tuple[Airline, Record]:
    """The state with a changed reservation whose price difference is paid or received."""
    user = state.users[changed["user_id"]]
    if payment_method(user, payment_id)["source"] == "certificate":
        raise ToolError("certificate cannot be used to update reservation")
    if difference:
        user = charged(user, {payment_id: difference}, BALANCE)
        entry = {"payment_id": payment_id, "amount": difference}
        changed = {**changed, "payment_history": [*changed["payment_history"], entry]}
    return changed_to(state, user, changed)


def without_certificates(user: Record, paid: Mapping[str, float]) -> Record:
    """The user without the certificates that pay for something; what is left on them is lost."""
    methods = user["payment_methods"]
    for method_id, amount in paid.items():
        if methods[method_id]["source"] == "certificate" and methods[method_id]["amount"] < amount:
            raise ToolError(f"not enough balance in payment method {method_id}")
    spent = {method_id for method_id in paid if methods[method_id]["source"] == "certificate"}
    return {**user, "payment_methods": {key: value for key, value in methods.items() if key not in spent}}


def changed_to(state: Airline, user: Record, reservation: Record) -> tuple[Airline, Record]:
    """The state with a user and a reservation put in, and that reservation."""
    users = {**state.users, reservation["user_id"]: user}
    reservations = {**state.reservations, reservation["reservation_id"]: reservation}
    return state._replace(users=users, reservations=reservations), reservation


def new_id(taken: Records, user_id: str) -> str:
    """Six characters like any other reservation's; the same bookings in the same order get the same ids."""
    number = 0
    while (made := digits(user_id, number)[:6].translate(_LETTERS)) in taken:
        number += 1
    return made


_LETTERS = str.maketrans("01234567", "HJKMPRTX")


def digits(*labels: str | int) -> str:
    """Seven digits that the labels determine."""
    digest = hashlib.sha256("\x1f".join(map(str, labels)).encode("utf-8")).digest()
    return f"{int.from_bytes(digest[:8], 'big') % 10**7:07d}"
