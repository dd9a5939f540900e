"""The results folder of a run: whether it can be written, and what an interrupted run left in it."""

import tempfile
from pathlib import Path

from cachemend.repair_core.errors import InputError
from cachemend.warehouse import store


def check_writable(folder: Path, name: str = "results folder") -> None:
    """Make the folder and try a file in it.

    Args:
        folder: the folder.
        name: what it is or which option named it, for the error.

    Raises:
        InputError: it cannot be made or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(f"{name} {folder}: cannot write ({error.strerror}); give a writable folder") from error


def kept(folder: Path, run_id: str, table: str = "records") -> str:
    """One line on what a run that ended early has written to `table`."""
    with store.connect(folder) as connection:
        # A row that was computed again counts too: it is a row of this run.
        row = connection.execute(f"SELECT count(*) FROM parts.{table} WHERE run_id = ?", [run_id]).fetchone()
    return f"{row[0] if row else 0} records of this run are kept in {folder}; run again to go on"
