"""CSV files that people fill in with a spreadsheet program: no cell runs as a formula, and texts read back exactly."""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from cachemend.repair_core.errors import InputError
from cachemend.repair_core.whole_file import write_whole

_MARK = "'"
# The wide forms are formulas too where the spreadsheet's language is Japanese.
_FORMULA = tuple("=+-@＝＋－＠")
_BEGINS = (*"\t\r\n", _MARK)


def cell(text: str) -> str:
    """Return `text` with an apostrophe before it where a spreadsheet might run it, or where it begins with one."""
    return _MARK + text if text.startswith(_BEGINS) or text.lstrip().startswith(_FORMULA) else text


def text_of(cell: str) -> str:
    """Return the text that `cell` was made of."""
    return cell.removeprefix(_MARK)


def write_sheet(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> Path:
    """Write a CSV file atomically, with the mark by which spreadsheet programs know UTF-8.

    Raises:
        InputError: a text that is not Unicode (its row is named by its first cell), or a place that cannot be written.
    """
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, quoting=csv.QUOTE_ALL)
    writer.writerow(header)
    for row in rows:
        try:
            "".join(row).encode("utf-8")
        except UnicodeEncodeError as error:
            raise InputError(f"row {row[0]}: a text holds half of a surrogate pair; repair or drop it") from error
        writer.writerow(row)
    try:
        write_whole(path, buffer.getvalue().encode("utf-8-sig"))
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"sheet {path} cannot be written ({reason}); give a writable file") from error
    return path
