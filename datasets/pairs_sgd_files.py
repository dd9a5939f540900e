"""Schema-Guided Dialogue as published: dialogues with annotated states and service calls, and the services' schema."""

from pathlib import Path
from typing import Any, NamedTuple

from cachemend.datasets.pair_files import read_json
from cachemend.repair_core.errors import InputError

FOLDER = "sgd/dev"


class Schema(NamedTuple):
    """What the schema says of the services.

    Attributes:
        lookups: (service, intent) -> the intent's description, of intents that only look something up.
        slots: (service, slot) -> the slot's description.
    """

    lookups: dict[tuple[str, str], str]
    slots: dict[tuple[str, str], str]


def read_schema(folder: Path) -> Schema:
    """Read ``sgd/dev/schema.json`` under a data folder.

    Raises:
        InputError: no such file, or content of another form.
    """
    path = folder / FOLDER / "schema.json"
    services = read_json(path)
    try:
        return Schema(
            lookups={
                (service["service_name"], intent["name"]): intent["description"]
                for service in services
                for intent in service["intents"]
                if not intent["is_transactional"]
            },
            slots={
                (service["service_name"], slot["name"]): slot["description"]
                for service in services
                for slot in service["slots"]
            },
        )
    except (KeyError, TypeError) as error:
        raise InputError(f"{path} is not a schema of services: {type(error).__name__} {error}") from error


def read_dialogues(folder: Path) -> list[tuple[str, list[Any]]]:
    """Read every ``sgd/dev/dialogues_*.json``, gzipped or plain, under a data folder.

    Returns:
        (dialogue id, turns) in the order of the files. A dialogue that comes twice counts once.

    Raises:
        InputError: no such file, one that cannot be read, or content of another form.
    """
    paths = sorted((folder / FOLDER).glob("dialogues_*.json*"))
    if not paths:
        raise InputError(f"no file {FOLDER}/dialogues_*.json or .json.gz under {folder}")
    dialogues: dict[str, list[Any]] = {}
    for path in paths:
        rows = read_json(path)
        if not isinstance(rows, list):
            raise InputError(f"{path} holds a {type(rows).__name__}; expected a list of dialogues")
        for number, row in enumerate(rows, 1):
            if not isinstance(row, dict) or not isinstance(row.get("turns"), list) or "dialogue_id" not in row:
                raise InputError(f"{path}, dialogue {number}: expected an object with dialogue_id and a list of turns")
            dialogues.setdefault(str(row["dialogue_id"]), row["turns"])
    return list(dialogues.items())
