"""What the airline's tools answer to the questions of its users."""

from collections.abc import Sequence
from typing import Any

from cachemend.datasets.tau_data import Airline, Record
from cachemend.datasets.tau_request import Questions
from cachemend.datasets.tau_text import inline
from cachemend.datasets.tau_tools_airline import call_airline


def legs(flights: Sequence[Record]) -> str:
    """The flights of a journey."""
    return ", ".join(f"{leg['flight_number']} of {leg['date']}" for leg in flights)


def people(passengers: Sequence[Record]) -> str:
    """The names of passengers."""
    return ", ".join(f"{p['first_name']} {p['last_name']}" for p in passengers)


def status(reservation: Record) -> str:
    """Tell "cancelled", or "active" for a reservation that no call has cancelled."""
    return str(reservation.get("status", "active"))


def overview(reservation: Record) -> str:
    """A reservation in a few words."""
    way = f"{reservation['origin']} to {reservation['destination']}"
    return f"{way}, {reservation['flights'][0]['date']}, {reservation['cabin']}, {status(reservation)}"


def _reservation(state: Airline, reservation_id: str) -> Record:
    found: Record = call_airline(state, "get_reservation_details", {"reservation_id": reservation_id}).output
    return found


def _user(state: Airline, user_id: str) -> Record:
    user: Record = call_airline(state, "get_user_details", {"user_id": user_id}).output
    return user


def tell_output(output: Any) -> str:
    """A call's result; a booking's new id is not told, since nobody knows it before the call."""
    if isinstance(output, str):
        return output
    hidden = ("reservation_id", "user_id", "created_at", "status")
    shown = {key: value for key, value in output.items() if key not in hidden}
    details = "; ".join(f"{key.replace('_', ' ')} {inline(value)}" for key, value in shown.items())
    return f"The reservation is {status(output)}: {details}"


def _tell_status(state: Airline, reservation_id: str) -> str:
    reservation = _reservation(state, reservation_id)
    way = f"{reservation['origin']} to {reservation['destination']}"
    return f"Reservation {reservation_id}, {way}, is {status(reservation)}."


def _tell_flights(state: Airline, reservation_id: str) -> str:
    reservation = _reservation(state, reservation_id)
    cancelled = ", all cancelled" if status(reservation) == "cancelled" else ""
    return f"Reservation {reservation_id}: {legs(reservation['flights'])} in {reservation['cabin']}{cancelled}."


def _tell_passengers(state: Airline, reservation_id: str) -> str:
    return f"Reservation {reservation_id} is for {people(_reservation(state, reservation_id)['passengers'])}."


def _tell_bags(state: Airline, reservation_id: str) -> str:
    reservation = _reservation(state, reservation_id)
    bags = f"{reservation['total_baggages']} checked bags, {reservation['nonfree_baggages']} of them paid"
    return f"Reservation {reservation_id} has {bags}."


def _tell_payments(state: Airline, reservation_id: str) -> str:
    history = _reservation(state, reservation_id)["payment_history"]
    entries = "; ".join(f"{entry['amount']} with {entry['payment_id']}" for entry in history)
    return f"Reservation {reservation_id}: {entries}."


def _tell_all(state: Airline, user_id: str) -> str:
    ids = _user(state, user_id)["reservations"]
    return "; ".join(f"{i}: {overview(_reservation(state, i))}" for i in ids) + "."


def _tell_balances(state: Airline, user_id: str) -> str:
    methods = _user(state, user_id)["payment_methods"].values()
    held = [f"{m['id']}: {m['amount']}" for m in methods if "amount" in m]
    return f"Balances: {', '.join(held) or 'none'}."


ABOUT_RESERVATION: Questions = {
    "status": (
        _tell_status,
        (
            "Is reservation {} still active?",
            "What is the status of {}?",
            "What is the status of the reservation I have open here?",
            "Please check whether {} still stands.",
        ),
    ),
    "flights": (
        _tell_flights,
        (
            "Which flights are in reservation {}?",
            "What am I flying with {}, and in which cabin?",
            "Which flights are in the reservation I have open here?",
            "Please list the flights and the cabin of {}.",
        ),
    ),
    "passengers": (
        _tell_passengers,
        (
            "Who is travelling on reservation {}?",
            "Which passengers does {} list?",
            "Who is on the reservation I have open here?",
            "Please tell me the passengers of {}.",
        ),
    ),
    "bags": (
        _tell_bags,
        (
            "How many checked bags are in reservation {}?",
            "What baggage is booked for {}?",
            "How many bags are in the reservation I have open here?",
            "Please tell me the checked bags of {}.",
        ),
    ),
    "payments": (
        _tell_payments,
        (
            "What was charged for reservation {}?",
            "Which charges and refunds are there for {}?",
            "What was charged for the reservation I have open here?",
            "Please show me the payment history of {}.",
        ),
    ),
}
ABOUT_USER: Questions = {
    "all reservations": (
        _tell_all,
        (
            "Which reservations do I have?",
            "Can you go through my reservations with date and cabin?",
            "What trips of mine do you see?",
            "Please list all of my reservations.",
        ),
    ),
    "balances": (
        _tell_balances,
        (
            "How much is left on my gift cards and certificates?",
            "What are my gift card and certificate balances?",
            "Do I have money on gift cards or certificates?",
            "Please tell me what my gift cards and certificates hold.",
        ),
    ),
}
