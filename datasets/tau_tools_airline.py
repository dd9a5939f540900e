"""The airline's tools, as its tool schemas and its policy page describe them.

Each tool takes a state and named arguments and returns the new state and its output; a call that is refused raises
`ToolError`. The policy page says of several of its rules that the tools do not check them; none of its rules for the
agent is checked here, only what makes a call meaningless: unknown ids, no seats, money that is not there.
Booking leaves the seat counts of flights alone; nothing in the schemas speaks of it.
"""

from collections.abc import Sequence

from cachemend.datasets.tau_calculating import calculate_text
from cachemend.datasets.tau_data import Airline, Record
from cachemend.datasets.tau_money import charged
from cachemend.datasets.tau_reservations import (
    BALANCE,
    active,
    available_leg,
    changed_to,
    digits,
    leg_key,
    new_id,
    settled,
    without_certificates,
)
from cachemend.datasets.tau_tool import Outcome, ToolError, Tools, call_tool, found

# The policy page's current time; it is the creation time of every new booking.
NOW = "2024-05-15T15:00:00"
BAG_PRICE, INSURANCE_PRICE = 50, 30


def get_user_details(state: Airline, /, *, user_id: str) -> tuple[Airline, Record]:
    """The user's record."""
    return state, found(state.users, user_id, "user")


def get_reservation_details(state: Airline, /, *, reservation_id: str) -> tuple[Airline, Record]:
    """The reservation's record."""
    return state, found(state.reservations, reservation_id, "reservation")


def search_direct_flight(
    state: Airline, /, *, origin: str, destination: str, date: str
) -> tuple[Airline, list[Record]]:
    """The flights between two airports that can be booked on a date, with seats and prices."""
    flights = [
        {**{key: value for key, value in flight.items() if key != "dates"}, **flight["dates"][date]}
        for flight in state.flights.values()
        if (flight["origin"], flight["destination"]) == (origin, destination)
        and flight["dates"].get(date, {}).get("status") == "available"
    ]
    return state, flights


def book_reservation(
    state: Airline,
    /,
    *,
    user_id: str,
    origin: str,
    destination: str,
    flight_type: str,
    cabin: str,
    flights: Sequence[Record],
    passengers: Sequence[Record],
    payment_methods: Sequence[Record],
    total_baggages: int,
    nonfree_baggages: int,
    insurance: str,
) -> tuple[Airline, Record]:
    """Book a journey; what is paid must be its price, and a certificate is used up whole."""
    user = found(state.users, user_id, "user")
    legs = [available_leg(state, flight, cabin, len(passengers)) for flight in flights]
    price = sum(leg["price"] for leg in legs) * len(passengers) + BAG_PRICE * nonfree_baggages
    price += INSURANCE_PRICE * len(passengers) if insurance == "yes" else 0
    paid = {payment["payment_id"]: payment["amount"] for payment in payment_methods}
    if sum(paid.values()) != price:
        raise ToolError(f"payment amount does not add up, total price is {price}, but paid {sum(paid.values())}")
    reservation_id = new_id(state.reservations, user_id)
    booked = {
        "reservation_id": reservation_id,
        "user_id": user_id,
        "origin": origin,
        "destination": destination,
        "flight_type": flight_type,
        "cabin": cabin,
        "flights": legs,
        "passengers": list(passengers),
        "payment_history": [dict(payment) for payment in payment_methods],
        "created_at": NOW,
        "total_baggages": total_baggages,
        "nonfree_baggages": nonfree_baggages,
        "insurance": insurance,
    }
    user = without_certificates(charged(user, paid, BALANCE), paid)
    return changed_to(state, {**user, "reservations": [*user["reservations"], reservation_id]}, booked)


def cancel_reservation(state: Airline, /, *, reservation_id: str) -> tuple[Airline, Record]:
    """Cancel a reservation; the refund is on its way, so no balance changes yet."""
    reservation = active(state, reservation_id)
    refunds = [{**payment, "amount": -payment["amount"]} for payment in reservation["payment_history"]]
    changed = {
        **reservation,
        "status": "cancelled",
        "payment_history": reservation["payment_history"] + refunds,
    }
    return changed_to(state, state.users[reservation["user_id"]], changed)


def update_reservation_flights(
    state: Airline, /, *, reservation_id: str, cabin: str, flights: Sequence[Record], payment_id: str
) -> tuple[Airline, Record]:
    """Change flights or cabin and settle the difference; a leg kept in its cabin keeps its price."""
    reservation = active(state, reservation_id)
    n = len(reservation["passengers"])
    kept = {leg_key(leg): leg for leg in reservation["flights"]} if cabin == reservation["cabin"] else {}
    legs = [kept.get(leg_key(flight)) or available_leg(state, flight, cabin, n) for flight in flights]
    difference = (sum(leg["price"] for leg in legs) - sum(leg["price"] for leg in reservation["flights"])) * n
    return settled(state, {**reservation, "cabin": cabin, "flights": legs}, payment_id, difference)


def update_reservation_passengers(
    state: Airline, /, *, reservation_id: str, passengers: Sequence[Record]
) -> tuple[Airline, Record]:
    """Replace the passengers by as many others."""
    reservation = active(state, reservation_id)
    if len(passengers) != len(reservation["passengers"]):
        raise ToolError("number of passengers does not match")
    return changed_to(state, state.users[reservation["user_id"]], {**reservation, "passengers": list(passengers)})


def update_reservation_baggages(
    state: Airline, /, *, reservation_id: str, total_baggages: int, nonfree_baggages: int, payment_id: str
) -> tuple[Airline, Record]:
    """Change the checked bags and pay for those that are not free."""
    reservation = active(state, reservation_id)
    added = max(0, nonfree_baggages - reservation["nonfree_baggages"])
    changed = {**reservation, "total_baggages": total_baggages, "nonfree_baggages": nonfree_baggages}
    return settled(state, changed, payment_id, BAG_PRICE * added)


def send_certificate(state: Airline, /, *, user_id: str, amount: float) -> tuple[Airline, str]:
    """Give the user a travel certificate."""
    user = found(state.users, user_id, "user")
    certificate_id = f"certificate_{digits(user_id, len(user['payment_methods']))}"
    certificate = {"source": "certificate", "amount": amount, "id": certificate_id}
    user = {**user, "payment_methods": {**user["payment_methods"], certificate_id: certificate}}
    after = state._replace(users={**state.users, user_id: user})
    return after, f"Certificate {certificate_id} added to user {user_id} with amount {amount}."


def calculate(state: Airline, /, *, expression: str) -> tuple[Airline, str]:
    """The value of an arithmetic expression."""
    return state, calculate_text(expression)


def transfer_to_human_agents(state: Airline, /, *, summary: str) -> tuple[Airline, str]:
    """Hand the user over; `summary` is for the human."""
    if not summary.strip():
        raise ToolError("a summary is needed")
    return state, "Transfer successful"


TOOLS: Tools = {
    tool.__name__: tool
    for tool in (
        get_user_details,
        get_reservation_details,
        search_direct_flight,
        book_reservation,
        cancel_reservation,
        update_reservation_flights,
        update_reservation_passengers,
        update_reservation_baggages,
        send_certificate,
        calculate,
        transfer_to_human_agents,
    )
}


def call_airline(state: Airline, name: str, arguments: Record) -> Outcome:
    """Call a tool; a refusal is an outcome that leaves the state as it was.

    Raises:
        ValueError: no tool of that name is implemented.
    """
    return call_tool(TOOLS, state, name, arguments)
