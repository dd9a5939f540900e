"""Reading a user's table: Parquet, JSON Lines or CSV, into an Arrow table and its columns into Python values.

No error message quotes a text of the table: it may hold what users asked and were told.
"""

import re
from collections import Counter
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from cachemend.repair_core.errors import InputError

_MIXED = re.compile(r"Column\(/([^/)]*)\) changed from (\w+) to (\w+) in row (\d+)")
_BLOCK, _LARGEST_BLOCK = 1 << 20, (1 << 31) - 1


def read_table(path: Path, texts: Iterable[str]) -> pa.Table:
    """Read `path` by its suffix (.parquet, .jsonl or .csv); the columns `texts` are text, whatever they look like.

    Raises:
        InputError: a missing or unreadable file, an unknown suffix, broken or non-UTF-8 content, no rows, or two
            columns of one name.
    """
    readers = {".parquet": _read_parquet, ".jsonl": _read_json, ".csv": _read_csv}
    suffix = path.suffix.lower()
    if suffix not in readers:
        raise InputError(f"{path}: suffix {path.suffix!r} is unknown; give a .parquet, .jsonl or .csv file")
    if not path.is_file():
        raise InputError(f"{path} is {'a folder' if path.is_dir() else 'not there'}; give a {suffix} file")
    try:
        table = readers[suffix](path, frozenset(texts))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or 'not a readable file'}") from error
    except pa.ArrowException as error:
        mixed = _MIXED.search(str(error))
        if mixed is not None:
            raise InputError(f"{path}: {_of_two_types(*mixed.groups())}") from error
        reason = re.sub(r"Column\(/?([^/)]*)[^)]*\)", r"column \1", str(error).split("\n")[0])
        raise InputError(f"{path} is not a readable {suffix} file: {reason}") from error
    twice = [name for name, count in Counter(table.column_names).items() if count > 1]
    if twice:
        raise InputError(f"{path}: column {twice[0]!r} is there twice")
    if not table.num_rows:
        raise InputError(f"{path} holds no rows")
    return table


def _of_two_types(column: str, before: str, now: str, row: str) -> str:
    # Arrow counts rows from 0.
    told = f"row {int(row) + 1}: {column} is of type {now}, and of type {before} in rows before"
    return f"{told}; labels are 0 (reuse was wrong) or 1 (reuse was right)" if column == "label" else told


def require_columns(path: Path, table: pa.Table, names: Iterable[str]) -> None:
    """Raise InputError for the first of `names` that the table lacks, with the nearest column that is none of them."""
    wanted = tuple(names)
    others = [column for column in table.column_names if column not in wanted]
    for name in wanted:
        if name not in table.column_names:
            close = get_close_matches(name, others, n=1)
            hint = f"rename {close[0]!r}? " if close else ""
            raise InputError(f"{path}: column {name!r} is missing; {hint}there are: {', '.join(table.column_names)}")


def text_column(path: Path, table: pa.Table, name: str) -> list[str]:
    """Return a column of texts.

    Raises:
        InputError: a column of another type, a null, or a text that is not UTF-8; the row is named.
    """
    column = table.column(name)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind)):
        raise InputError(f"{path}: column {name!r} holds {_plain(kind)}; give text")
    try:
        values = column.to_pylist()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: row {_undecodable(column)}: {name} is not UTF-8") from error
    if None in values:
        raise InputError(f'{path}: row {values.index(None) + 1}: {name} is null; give a text ("" for none)')
    return values


def _plain(kind: pa.DataType) -> str:
    """The name of a type without the field names inside it, which may be the user's own words."""
    return str(kind).partition("<")[0]


def _undecodable(column: pa.ChunkedArray) -> int:
    for row, value in enumerate(column, 1):
        try:
            value.as_py()
        except UnicodeDecodeError:
            return row
    raise AssertionError("every text is UTF-8")


def _block(path: Path) -> int:
    # A row longer than a block cannot be read, and a type is inferred anew for each block: so one block if possible.
    return min(max(path.stat().st_size, _BLOCK), _LARGEST_BLOCK)


def _read_parquet(path: Path, texts: frozenset[str]) -> pa.Table:
    del texts  # Parquet columns have their types
    with pa.parquet.ParquetFile(path) as file:
        return file.read()


def _read_csv(path: Path, texts: frozenset[str]) -> pa.Table:
    _refuse_other_separators(path)
    bad: list[pa.csv.InvalidRow] = []

    def skip(row: pa.csv.InvalidRow) -> str:
        bad.append(row)
        return "skip"

    table = pa.csv.read_csv(
        path,
        # Row numbers are known only to a single thread.
        read_options=pa.csv.ReadOptions(block_size=_block(path), use_threads=False),
        # Arrow's own message about such a row would quote it.
        parse_options=pa.csv.ParseOptions(newlines_in_values=True, invalid_row_handler=skip),
        convert_options=pa.csv.ConvertOptions(column_types=dict.fromkeys(texts, pa.string())),
    )
    if bad:
        first = bad[0]  # its number counts the header
        raise InputError(
            f"{path}: row {first.number - 1} has {first.actual_columns} cells, not {first.expected_columns}; "
            "put texts with commas, quotes or line breaks in double quotes"
        )
    return table


def _refuse_other_separators(path: Path) -> None:
    with path.open("rb") as file:
        header = file.readline()
    for name, separator in (("';'", b";"), ("a tab", b"\t")):
        if separator in header and b"," not in header:
            raise InputError(f"{path}: the separator seems to be {name}; save the file with commas between the columns")


def _read_json(path: Path, texts: frozenset[str]) -> pa.Table:
    options = pa.json.ReadOptions(block_size=_block(path))
    table = pa.json.read_json(path, read_options=options)
    # Texts that look like dates come as timestamps: read again, as what they are.
    dates = [field.name for field in table.schema if field.name in texts and pa.types.is_temporal(field.type)]
    if not dates:
        return table
    schema = pa.schema([(name, pa.string()) for name in dates])
    return pa.json.read_json(path, read_options=options, parse_options=pa.json.ParseOptions(explicit_schema=schema))
