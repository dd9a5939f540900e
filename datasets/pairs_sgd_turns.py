"""User turns of Schema-Guided Dialogue whose next system turn is an answer, with the state that answer rests on."""

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from cachemend.datasets.pairs_sgd_files import Schema
from cachemend.repair_core.errors import InputError

# What a system turn of a service's look-up may hold; a failure notice or a follow-up question rests on more.
_FOUND = {"OFFER", "INFORM", "INFORM_COUNT"}

Values = tuple[tuple[str, str], ...]


class AnswerTurn(NamedTuple):
    """A user turn, the system's answer to it, and what the answer rests on; values are the canonical ones.

    Attributes:
        dialogue: the dialogue's id.
        place: the user turn's position in it.
        kind: "search" (a service was looked up), "inform" (slots of the last offer were asked for) or "confirm" (the
            values of a booking were read back).
        service: the service that answers.
        intent: the active intent.
        asked: the slots asked for; empty unless `kind` is "inform".
        basis: slot -> value, sorted: the parameters of the look-up; those and, under "offered", the whole last offer;
            or the values read back.
        answer: the system's acts as (act, slot, values joined by "|"), sorted.
        offer: slot -> value of what was last offered before the utterance, sorted.
        stated: slot -> value as said, of what this very utterance states.
        query: the user's utterance.
        response: the system's utterance.
        context: the state after the user's utterance, and what was offered before it, as lines ``key: value``.
    """

    dialogue: str
    place: int
    kind: str
    service: str
    intent: str
    asked: tuple[str, ...]
    basis: Values
    answer: tuple[tuple[str, str, str], ...]
    offer: Values
    stated: Values
    query: str
    response: str
    context: str

    @property
    def key(self) -> tuple[str, ...]:
        """What two turns must share to be asking for the same thing."""
        return (self.kind, self.service, self.intent if self.kind != "inform" else "", *self.asked)

    @property
    def name(self) -> str:
        """The turn's name in pair ids."""
        return f"{self.dialogue}:{self.place}"


def answer_turns(dialogues: Iterable[tuple[str, list[Any]]], schema: Schema) -> tuple[list[AnswerTurn], dict[str, int]]:
    """Find the answer turns of all dialogues.

    Returns:
        The turns in order, and the number of other user turns by reason.

    Raises:
        InputError: a turn of another form; the line names dialogue and turn.
    """
    found: list[AnswerTurn] = []
    rejects: Counter[str] = Counter()
    for dialogue, turns in dialogues:
        known = _Known()
        for place, turn in enumerate(turns):
            try:
                known.see(turn)
                if turn["speaker"] == "USER" and place + 1 < len(turns):
                    made = _answer_turn(dialogue, place, turn, turns[place + 1], known, schema)
                    if isinstance(made, str):
                        rejects[made] += 1
                    else:
                        found.append(made)
            except (KeyError, TypeError, IndexError, AttributeError) as error:
                raise InputError(
                    f"Schema-Guided Dialogue, dialogue {dialogue}, turn {place}: not the published form "
                    f"({type(error).__name__} {error})"
                ) from error
    return found, dict(rejects)


class _Known:
    """What a dialogue has said so far: the canonical form of values, each service's last look-up and last offer."""

    def __init__(self) -> None:
        self.of_slot: dict[tuple[str, str, str], str] = {}
        self.of_value: dict[str, str] = {}
        self.lookups: dict[str, Values] = {}
        self.offers: dict[str, Values] = {}

    def see(self, turn: dict[str, Any]) -> None:
        for frame in turn["frames"]:
            service = frame["service"]
            for act in frame["actions"]:
                for value, canonical in zip(act["values"], act["canonical_values"], strict=False):
                    self.of_slot[service, act["slot"], value] = canonical
                    self.of_value[value] = canonical
            offer = [(act["slot"], _joined(act)) for act in frame["actions"] if act["act"] == "OFFER"]
            if offer and turn["speaker"] == "SYSTEM":
                self.offers[service] = tuple(sorted(offer))

    def look_up(self, service: str, state: dict[str, Any], parameters: Values) -> None:
        """Take note of a look-up; its parameters are the canonical values of the state it was made in."""
        self.lookups[service] = parameters
        for slot, value in parameters:
            for variant in state["slot_values"].get(slot, ()):
                self.of_slot[service, slot, variant] = value

    def value(self, service: str, slot: str, variants: list[str]) -> str:
        """The canonical value of a state's slot, whose variants all mean the same; as said where none is known.

        A value carried over from another service is known under that service's slot only.
        """
        known = [self.of_slot.get((service, slot, variant)) for variant in variants]
        known += [self.of_value.get(variant) for variant in variants]
        return next((value for value in known if value is not None), variants[0])


def _joined(act: dict[str, Any]) -> str:
    return "|".join(act["canonical_values"])


def _answer_turn(
    dialogue: str, place: int, user: dict[str, Any], system: dict[str, Any], known: _Known, schema: Schema
) -> AnswerTurn | str:
    """The answer turn, or why this is none."""
    if len(system["frames"]) != 1:
        return "the reply speaks for two services"
    reply = system["frames"][0]
    service = reply["service"]
    frame = next((frame for frame in user["frames"] if frame["service"] == service), None)
    if frame is None:
        return "the reply speaks for another service than the request"
    state = frame["state"]
    acts = {act["act"] for act in reply["actions"]}
    call = reply.get("service_call")
    offer = known.offers.get(service, ())
    asked = tuple(sorted(state["requested_slots"]))
    if call is not None and (service, call["method"]) in schema.lookups and acts <= _FOUND:
        if any(act["act"] == "REQUEST_ALTS" for act in frame["actions"]):
            return "the reply rests on which offers were turned down"
        kind, asked, basis = "search", (), tuple(sorted((slot, str(v)) for slot, v in call["parameters"].items()))
        known.look_up(service, state, basis)
    elif acts == {"INFORM"} and offer and asked and set(asked) == {act["slot"] for act in reply["actions"]}:
        kind = "inform"
        basis = (*known.lookups.get(service, ()), ("offered", "; ".join(f"{slot}={value}" for slot, value in offer)))
    elif acts == {"CONFIRM"}:
        kind, asked, basis = "confirm", (), tuple(sorted((act["slot"], _joined(act)) for act in reply["actions"]))
    else:
        return "the reply is no answer"
    return AnswerTurn(
        dialogue=dialogue,
        place=place,
        kind=kind,
        service=service,
        intent=state["active_intent"],
        asked=asked,
        basis=basis,
        answer=tuple(sorted((act["act"], act["slot"], _joined(act)) for act in reply["actions"])),
        offer=offer,
        stated=tuple((act["slot"], act["values"][0]) for act in frame["actions"] if act["act"] == "INFORM"),
        query=user["utterance"],
        response=system["utterance"],
        context=_context(service, state, offer, known),
    )


def _context(service: str, state: dict[str, Any], offer: Values, known: _Known) -> str:
    lines = [f"service: {service}", f"intent: {state['active_intent']}"]
    lines += [f"{slot}: {known.value(service, slot, said)}" for slot, said in sorted(state["slot_values"].items())]
    lines += [f"offered.{slot}: {value}" for slot, value in offer]
    if state["requested_slots"]:
        lines.append(f"requested: {', '.join(sorted(state['requested_slots']))}")
    return "\n".join(lines)
