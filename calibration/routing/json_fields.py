"""Exact reading of JSON objects: every field there, none unknown, each of its type."""

from collections.abc import Mapping
from typing import Any

from cachemend.calibration.errors import CalibrationError

LARGEST = 2**53
"""Beyond it, whole numbers do not survive JSON readers that hold them as doubles."""


def checked_fields(name: str, content: object, types: Mapping[str, type]) -> dict[str, Any]:
    """Return the fields of a JSON object, in the order of `types`; a whole number passes as a float.

    Args:
        name: the object's name, for errors; "" for the outermost.
        content: what was read.
        types: the type of each field.

    Raises:
        CalibrationError: no object, a field that is missing, unknown or of another type; the line names it.
    """
    if not isinstance(content, dict):
        raise CalibrationError(f"{name or 'the content'} is a {type(content).__name__}; it must be an object")
    inside = f"{name}." if name else ""
    for field in types:
        if field not in content:
            raise CalibrationError(f"field {inside}{field} is missing")
    for field in content:
        if field not in types:
            raise CalibrationError(f"field {inside}{field} is unknown; known: {', '.join(types)}")
    return {field: _typed(f"{inside}{field}", content[field], kind) for field, kind in types.items()}


def checked_list(name: str, content: object) -> list[Any]:
    """Return a JSON list.

    Raises:
        CalibrationError: something else.
    """
    return list(_typed(name, content, list))


def _typed(name: str, value: object, kind: type) -> Any:
    if kind is float and type(value) is int:
        value = float(value) if abs(value) <= LARGEST else value
    # `type`, not isinstance: true is no number.
    if kind is not object and type(value) is not kind:
        raise CalibrationError(f"field {name} is {_shown(value)}; it must be a {kind.__name__}")
    if isinstance(value, int) and abs(value) > LARGEST:
        raise CalibrationError(f"field {name} is a number of {value.bit_length()} bits; that is no count")
    return value


def _shown(value: object) -> str:
    return repr(value) if value is None or isinstance(value, bool | float) else f"a {type(value).__name__}"
