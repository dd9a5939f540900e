"""tau-bench's databases and tasks (Yao et al. 2024), as its publisher's JSON and the task lists saved as JSON.

A state is three dictionaries of records. Nothing changes one in place: a tool gives a new state that shares every
record it did not touch, so that thousands of states of a five-megabyte database cost next to nothing.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from cachemend.repair_core.errors import InputError

Record = dict[str, Any]
Records = Mapping[str, Record]


class Retail(NamedTuple):
    """The state of the shop; each maps an id to its record."""

    users: Records
    orders: Records
    products: Records


class Airline(NamedTuple):
    """The state of the airline; each maps an id to its record."""

    users: Records
    reservations: Records
    flights: Records


class Action(NamedTuple):
    """A tool call."""

    name: str
    arguments: Record


class Task(NamedTuple):
    """A conversation to be had and the tool calls that solve it.

    Attributes:
        task_id: the file's name and the place in it.
        user_id: who asks.
        instruction: what the simulated user is told to want.
        actions: the right tool calls, in order.
        outputs: texts that a right answer must contain.
    """

    task_id: str
    user_id: str
    instruction: str
    actions: tuple[Action, ...]
    outputs: tuple[str, ...]


def load_retail(folder: Path) -> Retail:
    """The shop of ``tau-bench/retail/data`` in the data folder.

    Raises:
        InputError: a file that is absent or no JSON object.
    """
    data = folder / "tau-bench" / "retail" / "data"
    return Retail(*(_records(data / f"{name}.json") for name in Retail._fields))


def load_airline(folder: Path) -> Airline:
    """The airline of ``tau-bench/airline/data`` in the data folder.

    Raises:
        InputError: a file that is absent or no JSON object.
    """
    data = folder / "tau-bench" / "airline" / "data"
    return Airline(*(_records(data / f"{name}.json") for name in Airline._fields))


def load_tasks(folder: Path, domain: str) -> tuple[Task, ...]:
    """Every task of ``tau-bench/{domain}/tasks_*.json`` in the data folder, by file name and place.

    Raises:
        InputError: no such file, or content of another form.
    """
    paths = sorted((folder / "tau-bench" / domain).glob("tasks_*.json"))
    if not paths:
        raise InputError(f"{folder} holds no tau-bench/{domain}/tasks_*.json; save the task lists there as JSON")
    return tuple(task for path in paths for task in _tasks(path))


def _tasks(path: Path) -> list[Task]:
    rows = _read(path)
    try:
        return [
            Task(
                f"{path.stem}/{number}",
                row["user_id"],
                row["instruction"],
                tuple(Action(action["name"], action["kwargs"]) for action in row["actions"]),
                tuple(row.get("outputs", ())),
            )
            for number, row in enumerate(rows)
        ]
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is no list of tau-bench tasks: {type(error).__name__} {error}") from error


def _records(path: Path) -> Record:
    content = _read(path)
    if not isinstance(content, dict):
        raise InputError(f"{path} holds a {type(content).__name__}; it must be an object of records by id")
    return content


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist") from error
    except ValueError as error:
        raise InputError(f"{path} is not JSON: {error}") from error
