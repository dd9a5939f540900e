"""What all tools of tau-bench's domains share: refusals, outcomes and the call by name."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from cachemend.datasets.tau_data import Record, Records

Tools = Mapping[str, Callable[..., tuple[Any, Any]]]


class ToolError(Exception):
    """A call that the domain refuses; its text is the tool's answer."""


class Outcome(NamedTuple):
    """What a tool call did.

    Attributes:
        state: the state after it; the very state before it where the call failed or only reads.
        output: a JSON value, or the text of an error.
        failed: the call was refused.
    """

    state: Any
    output: Any
    failed: bool


def call_tool(tools: Tools, state: Any, name: str, arguments: Record) -> Outcome:
    """Call a tool; a refusal is an outcome that leaves the state as it was.

    Raises:
        ValueError: no tool of that name is implemented.
    """
    if name not in tools:
        raise ValueError(f"tool {name!r} is not one of {', '.join(tools)}")
    try:
        after, output = tools[name](state, **arguments)
    except ToolError as error:
        return Outcome(state, f"Error: {error}", True)
    return Outcome(after, output, False)


def found(records: Records, key: str, what: str) -> Record:
    """The record of an id.

    Raises:
        ToolError: there is none.
    """
    if key not in records:
        raise ToolError(f"{what} not found")
    return records[key]
