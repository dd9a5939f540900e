"""Writes dialogues in the published form of Schema-Guided Dialogue."""

import gzip
import json
from pathlib import Path
from typing import Any

SCHEMA = [
    {
        "service_name": "Hotels_9",
        "description": "hotels",
        "slots": [
            {"name": "city", "description": "City of the hotel"},
            {"name": "stars", "description": "Stars of the hotel"},
            {"name": "name", "description": "Name of the hotel"},
            {"name": "phone", "description": "Phone number of the hotel"},
        ],
        "intents": [
            {"name": "SearchHotel", "description": "Look for a hotel", "is_transactional": False},
            {"name": "BookHotel", "description": "Book a hotel", "is_transactional": True},
        ],
    }
]


def act(name: str, slot: str = "", value: str | None = None, canonical: str | None = None) -> dict[str, Any]:
    said = [] if value is None else [value]
    return {"act": name, "slot": slot, "values": said, "canonical_values": said if canonical is None else [canonical]}


def user(
    text: str,
    acts: list[dict[str, Any]],
    slots: dict[str, str],
    *,
    intent: str = "SearchHotel",
    asked: tuple[str, ...] = (),
) -> dict[str, Any]:
    state = {
        "active_intent": intent,
        "requested_slots": list(asked),
        "slot_values": {slot: [value] for slot, value in slots.items()},
    }
    frame = {"service": "Hotels_9", "actions": acts, "slots": [], "state": state}
    return {"speaker": "USER", "utterance": text, "frames": [frame]}


def system(
    text: str, acts: list[dict[str, Any]], *, method: str = "", parameters: dict[str, str] | None = None
) -> dict[str, Any]:
    frame: dict[str, Any] = {"service": "Hotels_9", "actions": acts, "slots": []}
    if method:
        frame |= {"service_call": {"method": method, "parameters": parameters}, "service_results": []}
    return {"speaker": "SYSTEM", "utterance": text, "frames": [frame]}


def search(name: str, city: str, hotel: str, words: str) -> dict[str, Any]:
    """A dialogue of one search for a hotel in a city, and the question for its phone number."""
    offer = [act("OFFER", "name", hotel), act("INFORM_COUNT", "count", "3")]
    return {
        "dialogue_id": name,
        "services": ["Hotels_9"],
        "turns": [
            user(words, [act("INFORM_INTENT", "intent", "SearchHotel")], {"city": city}),
            system(f"{hotel} it is, said {name}.", offer, method="SearchHotel", parameters={"city": city}),
            user("And its phone?", [act("REQUEST", "phone")], {"city": city}, asked=("phone",)),
            system(f"555 {hotel}.", [act("INFORM", "phone", f"555 {hotel}")]),
        ],
    }


def write_sgd(folder: Path, *files: list[dict[str, Any]], packed: bool = True) -> Path:
    """Write a data folder with the schema and one dialogue file per list; gzipped ones if `packed`."""
    dev = folder / "sgd" / "dev"
    dev.mkdir(parents=True)
    (dev / "schema.json").write_text(json.dumps(SCHEMA), encoding="utf-8")
    for number, dialogues in enumerate(files, 1):
        content = json.dumps(dialogues).encode("utf-8")
        name = f"dialogues_{number:03}.json"
        (dev / (name + ".gz" if packed else name)).write_bytes(gzip.compress(content) if packed else content)
    return folder
