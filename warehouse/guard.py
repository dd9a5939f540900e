"""Which SQL a reader may run: one query over the views, and nothing that reads or writes files.

DuckDB's own limits stay on beneath this (no access outside the results folder, locked configuration), but they
are not enough: a link inside the folder leads out of it, and `WITH x AS (COPY ... TO 'file')` is a SELECT that
writes. So the parsed query is checked against what is allowed, not against what is known to be harmful.
"""

import json
import re
from collections.abc import Iterator
from functools import cache

import duckdb

from cachemend.repair_core.errors import InputError, did_you_mean
from cachemend.warehouse.schemas import TABLES
from cachemend.warehouse.views import VIEWS

_QUERY_NODES = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
_TABLE_FUNCTIONS = {"range", "generate_series", "unnest", "json_each", "json_tree"}
_QUERY_WORDS = {"SELECT", "FROM", "WITH", "VALUES", "DESCRIBE", "SUMMARIZE", "SHOW"}
_LISTINGS = {'"tables"', "__show_tables_expanded"}
_ONLY = "a query is one SELECT (or FROM, WITH, VALUES, DESCRIBE, SUMMARIZE, SHOW TABLES) over the views"
_LISTED = "SHOW TABLES lists the views"

Node = dict[str, object]


def check(sql: str) -> None:
    """Accept a query, or say in one line why not.

    Raises:
        InputError: no statement or several; a statement that is not a query; an unknown view; a table function
            or a file; a syntax error.
    """
    try:
        parsed = json.loads(_serialize(sql))
        nodes = list(_nodes(parsed))
    except RecursionError as error:
        raise InputError("SQL: the query is nested too deeply") from error
    if parsed.get("error"):
        raise InputError(_parse_error(sql, str(parsed.get("error_message"))))
    if len(parsed["statements"]) != 1:
        raise InputError(f"SQL: {len(parsed['statements'])} statements given; {_ONLY}")
    ctes = {str(entry.get("key")).lower() for node in nodes for entry in _entries(node)}
    for node in nodes:
        _check_node(node, ctes)


def one_line(error: duckdb.Error) -> str:
    """Return DuckDB's message as one line, without its error class and its picture of the query."""
    text = str(error).split("\n\nLINE ")[0]
    return re.sub(r"^[A-Z][\w ]*Error: ", "", " ".join(text.split()))


def _serialize(sql: str) -> str:
    try:
        row = _parser().cursor().execute("SELECT json_serialize_sql(?)", [sql]).fetchone()
    except duckdb.Error as error:
        raise InputError(f"SQL: {one_line(error)}") from error
    return str(row[0]) if row else "{}"


@cache
def _parser() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"enable_external_access": "false", "lock_configuration": "true"})


def _parse_error(sql: str, message: str) -> str:
    if "Only SELECT" in message:
        first = sql.split()[0].upper()
        what = "a second statement" if first in _QUERY_WORDS else first
        return f"SQL: {what} is not allowed; {_ONLY}"
    return f"SQL: {' '.join(message.split())}"


def _nodes(root: object) -> Iterator[Node]:
    waiting = [root]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            yield item
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)


def _entries(node: Node) -> list[Node]:
    """Return the entries of a node's CTE map."""
    ctes = node.get("cte_map")
    return ctes["map"] if isinstance(ctes, dict) else []


def _check_node(node: Node, ctes: set[str]) -> None:
    kind = str(node.get("type", ""))
    if kind.endswith("_NODE") and kind not in _QUERY_NODES:
        raise InputError(f"SQL: {kind.split('_')[0]} is not allowed; {_ONLY}")
    if kind == "BASE_TABLE":
        _check_table(node, ctes)
    elif kind == "TABLE_FUNCTION":
        function = node.get("function")
        name = str(function.get("function_name", "") if isinstance(function, dict) else "")
        if name.lower() not in _TABLE_FUNCTIONS:
            raise InputError(f"SQL: table function {name!r} is not allowed; {_LISTED}")
    elif kind == "SHOW_REF" and node.get("query") is None and node.get("table_name") not in _LISTINGS:
        raise InputError(f"SQL: only SHOW TABLES and SHOW ALL TABLES list anything; {_LISTED}")


def _check_table(node: Node, ctes: set[str]) -> None:
    catalog, schema, name = (str(node.get(f"{part}_name", "")).lower() for part in ("catalog", "schema", "table"))
    if catalog == "" and schema == "information_schema":
        return
    if catalog == "" and schema == "parts" and name in TABLES:
        return
    if catalog == "" and schema in ("", "main") and name in VIEWS:
        return
    # A CTE may hide behind any name, but one that looks like a path would fall through to a file outside its scope.
    if catalog == "" and schema == "" and name in ctes and re.fullmatch(r"\w+", name):
        return
    given = ".".join(part for part in (catalog, schema, name) if part)
    raise InputError(f"SQL: no view {given!r}; {did_you_mean(given, VIEWS)}{_LISTED}")
