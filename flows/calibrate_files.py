"""What `cachemend calibrate` writes: scores without texts, and the policy; each file whole or not at all."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cachemend.calibration.routing import REGENERATE, REUSE, VERIFY, ReusePolicy, save_policy
from cachemend.flows.results_folder import check_writable
from cachemend.repair_core.errors import InputError
from cachemend.tasks.verifying.files import write_whole

POLICY, SCORES, SHEET = "policy.json", "scores.parquet", "label-sheet.csv"
_ACTIONS = {REGENERATE: "regenerate", REUSE: "reuse", VERIFY: "verify"}


@contextmanager
def output_folder(folder: Path) -> Iterator[None]:
    """Make a folder for the block; where the block fails before anything is written, no folder stays behind.

    Raises:
        InputError: it cannot be made or written.
    """
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    check_writable(folder, "--out")
    try:
        yield
    except BaseException:
        for each in made:
            with suppress(OSError):  # not empty: something was written
                each.rmdir()
        raise


def action_names(actions: NDArray[np.int8]) -> list[str]:
    """The words for what a policy does."""
    return [_ACTIONS[action] for action in actions.tolist()]


def write_scores(folder: Path, ids: Sequence[str], columns: Mapping[str, Any]) -> Path:
    """Write one row per pair, by ascending id: `pair_id` and the columns, each with one value per pair."""
    table = pa.table({"pair_id": pa.array(ids, pa.string()), **columns}).sort_by("pair_id")
    write_whole(table, folder / SCORES)
    return folder / SCORES


def write_policy(folder: Path, policy: ReusePolicy) -> Path:
    """Write the policy.

    Raises:
        InputError: the file cannot be written.
    """
    try:
        return save_policy(policy, folder / POLICY)
    except OSError as error:
        raise InputError(f"policy file {folder / POLICY} cannot be written ({error.strerror})") from error
