"""The results folder of a run: whether it can be written, and what an interrupted run left in it."""

import tempfile
from pathlib import Path

from cachemend.repair_core.errors import InputError
from cachemend.warehouse import store


def check_writable(folder: Path) -> None:
    """Make the folder and try a file in it.

    Raises:
        InputError: it cannot be made or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(f"results folder {folder}: cannot write ({error.strerror}); give a writable folder") from error


def kept(folder: Path, run_id: str) -> str:
    """One line on what a run that ended early has written."""
    answer = store.query(folder, f"SELECT count(*) AS n FROM records WHERE run_id = '{run_id}'")
    return f"{answer.column('n')[0]} records of this run are kept in {folder}; run again to go on"
