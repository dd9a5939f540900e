"""What users of the airline ask, in which context, and what its tools answer."""

from cachemend.datasets.tau_answers_airline import (
    ABOUT_RESERVATION,
    ABOUT_USER,
    legs,
    overview,
    people,
    status,
    tell_output,
)
from cachemend.datasets.tau_data import Action, Airline, Record
from cachemend.datasets.tau_request import Change, Request, preview, questions_about
from cachemend.datasets.tau_text import inline, lines
from cachemend.datasets.tau_tools_airline import call_airline


def ask_for(action: Action) -> str:
    """A call in words; the instructions describe journeys rather than calls."""
    of = action.arguments
    match action.name:
        case "cancel_reservation":
            return f"Cancel reservation {of['reservation_id']}."
        case "update_reservation_flights":
            where = f"{of['cabin']} on {legs(of['flights'])}"
            return f"Change reservation {of['reservation_id']} to {where}, paid with {of['payment_id']}."
        case "update_reservation_passengers":
            return f"Change the passengers of reservation {of['reservation_id']} to {people(of['passengers'])}."
        case "update_reservation_baggages":
            bags = f"{of['total_baggages']} checked bags, {of['nonfree_baggages']} of them not free"
            return f"Change reservation {of['reservation_id']} to {bags}, paid with {of['payment_id']}."
        case "book_reservation":
            where = f"{of['origin']} to {of['destination']} in {of['cabin']} on {legs(of['flights'])}"
            paid = ", ".join(f"{p['payment_id']} {p['amount']}" for p in of["payment_methods"])
            return f"Book {where} for {people(of['passengers'])}, paid with {paid}."
        case _:
            return f"Do {action.name.replace('_', ' ')}: {inline(of)}."


def subject_of(action: Action) -> str:
    """The reservation a call changes, else the user whose account it changes."""
    return str(action.arguments.get("reservation_id") or action.arguments["user_id"])


def context(state: Airline, user_id: str, subject: str) -> str:
    """What the tools say of the user, of the user's reservations and of the reservation asked about."""
    user = state.users[user_id]
    about = {
        "user_id": user_id,
        "name": " ".join(user["name"].values()),
        "membership": user["membership"],
        "payment_methods": {key: _method(method) for key, method in user["payment_methods"].items()},
        "reservations": {key: overview(state.reservations[key]) for key in user["reservations"]},
    }
    text = lines(about)
    return text if subject == user_id else text + "\n" + lines(state.reservations[subject], "reservation.")


def subjects(state: Airline, user_id: str) -> tuple[str, ...]:
    """The user's reservations."""
    return tuple(state.users[user_id]["reservations"])


def further_calls(state: Airline, user_id: str) -> tuple[Action, ...]:
    """Calls that the user could well make next: a cancellation of each of the user's reservations."""
    return tuple(
        Action("cancel_reservation", {"reservation_id": reservation_id}) for reservation_id in subjects(state, user_id)
    )


def status_of(state: Airline, subject: str) -> str:
    """Whether a reservation is active or cancelled."""
    return status(state.reservations[subject])


def requests(user_id: str, subject: str) -> tuple[Request, ...]:
    """The questions about a reservation, or about the account where `subject` is the user."""
    return questions_about(subject, user_id, ABOUT_USER if subject == user_id else ABOUT_RESERVATION)


def preview_of(change: Change) -> Request:
    """The question what a change would do."""
    return preview(change, call_airline, tell_output)


def _method(method: Record) -> str:
    return inline({k: v for k, v in method.items() if k not in ("id", "source")})
