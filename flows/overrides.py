"""From a config file and `--set` options to validated settings."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from cachemend.repair_core.errors import InputError, nearest

C = TypeVar("C", bound=BaseModel)


def build_config(
    kind: type[C],
    *,
    file: Path | None = None,
    assignments: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
) -> C:
    """Return the settings: `options` over `assignments` over `file` over defaults.

    Args:
        kind: the settings' type.
        file: YAML or JSON file of keys and values.
        assignments: "key=value" texts; values are read as YAML.
        options: values of command-line options of their own; None means not given.

    Raises:
        InputError: one line naming the key, its value and what would be right.
    """
    merged: dict[str, Any] = read_config(file) if file else {}
    for text in assignments:
        key, value = parse_assignment(kind, text)
        merged[key] = value
    merged.update({key: value for key, value in (options or {}).items() if value is not None})
    return validated_config(kind, merged)


def validated_config(kind: type[C], values: Mapping[str, Any]) -> C:
    """Return settings of type `kind`; raises InputError like `build_config`."""
    for key in values:
        _check_key(kind, key)
    try:
        return kind.model_validate(dict(values))
    except ValidationError as error:
        raise InputError(_line(error)) from error


def read_config(file: Path) -> dict[str, Any]:
    """Read a YAML or JSON file of keys and values.

    Raises:
        InputError: it cannot be read, or holds no keys.
    """
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"config file {file}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"config file {file} is neither YAML nor JSON: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise InputError(f"config file {file} must hold keys and values, such as `model: smollm2-135m`")
    return content


def parse_assignment(kind: type[BaseModel], text: str) -> tuple[str, Any]:
    """Split "key=value" and read the value as YAML; a value of a text field stays as written.

    Raises:
        InputError: no "=", an unknown key, or a value that is not YAML.
    """
    key, separator, value = text.partition("=")
    if not separator:
        raise InputError(f"--set {text!r} has no '='; write --set key=value")
    key = key.strip()
    _check_key(kind, key)
    if not value.strip():
        raise InputError(f"--set {text!r} gives no value; write --set {key}=value, or leave it out for the default")
    try:
        parsed = yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise InputError(f"--set {key}: {value!r} is not YAML: {' '.join(str(error).split())}") from error
    is_text = kind.model_fields[key].annotation in (str, str | None)
    # A revision such as 1e5 is a name, not a number.
    return key, value if is_text and isinstance(parsed, bool | int | float) else parsed


def as_assignments(config: BaseModel) -> list[str]:
    """Return `config` as "key=value" texts that `build_config` reads back, without what is left at its default."""
    values = config.model_dump(mode="json", exclude_defaults=True)
    return [f"{key}={json.dumps(value)}" for key, value in values.items()]


def _check_key(kind: type[BaseModel], key: str) -> None:
    if key not in kind.model_fields:
        raise InputError(f"config key {key!r} is unknown; {nearest(key, kind.model_fields)}")


def _line(error: ValidationError) -> str:
    first = error.errors()[0]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, InputError):
        return str(cause)
    key = str(first["loc"][0]) if first["loc"] else "config"
    return f"config key {key!r}: {first['msg'].lower()}, not {first['input']!r}"
