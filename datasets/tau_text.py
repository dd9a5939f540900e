"""tau-bench's records as lines ``key: value``, the form in which a context holds a tool's state."""

from collections.abc import Iterator
from typing import Any

from cachemend.datasets.tau_data import Record


def lines(record: Record, prefix: str = "") -> str:
    """One line per value; nested keys are joined by ``.``, and an entry of a list is one line under its number."""
    return "\n".join(f"{key}: {value}" for key, value in _pairs(record, prefix))


def inline(value: Any) -> str:
    """A value on one line: ``key value`` pairs and list entries joined by commas."""
    match value:
        case dict():
            return ", ".join(f"{key} {inline(item)}" for key, item in value.items())
        case list() | tuple():
            return ", ".join(map(inline, value))
        case float():
            return f"{value:.2f}"
        case _:
            return str(value)


def _pairs(record: Record, prefix: str) -> Iterator[tuple[str, str]]:
    for key, value in record.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _pairs(value, f"{name}.")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            yield from ((f"{name}.{number}", inline(item)) for number, item in enumerate(value, 1))
        else:
            yield name, inline(value)
