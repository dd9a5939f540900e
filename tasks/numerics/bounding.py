"""Proposition 14.1 on the layers of a real refresh: error and bound at probed rows of a case."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import torch

from cachemend.datasets.niah_case import NiahCase
from cachemend.repair_core import LoadedModel
from cachemend.repair_core.intervals import Positions
from cachemend.repair_core.residual_bound import probe_residual
from cachemend.tasks.failures import outcome_of
from cachemend.tasks.numerics.arms import PathArm
from cachemend.tasks.numerics.building import build_path, fresh_context
from cachemend.tasks.work import Measured

PROBED_ROWS = 16

_REPLAY = PathArm(path="replay")


def bound_case(loaded: LoadedModel, case: NiahCase, arms: Sequence[PathArm], attention: str) -> list[Measured]:
    """Evaluate both sides in every layer and head; one measurement per arm, failures included."""
    context = fresh_context(loaded, case)
    replayed = cache(lambda: build_path(context, _REPLAY, attention).cache)
    rows = []
    for arm in arms:
        try:
            built = build_path(context, arm, attention)
            where = spread(built.positions)
            ids = torch.as_tensor(case.deletion.edited_ids, dtype=torch.int64)
            probe = probe_residual(loaded.model, built.cache, replayed(), ids, where)
            found = probe.found
            layers, heads, _ = np.indices(found.error.shape)
            row: dict[str, Any] = {
                "n_positions": len(built.positions),
                "n_intervals": built.n_intervals,
                "n_probed": found.error.size,
                "reproduced": probe.reproduced,
                "layer": layers.ravel().tolist(),
                "head": heads.ravel().tolist(),
                "position": np.broadcast_to(where, found.error.shape).ravel().tolist(),
                "error_norm": found.error.ravel().tolist(),
                "value_term": found.value_term.ravel().tolist(),
                "bound_measured": found.measured.ravel().tolist(),
                "bound": found.bound.ravel().tolist(),
                "violated": found.violated.astype(np.int64).ravel().tolist(),
                "outcome": "ok",
            }
            # The proposition is proved: a violation is a fault of what was measured, and the row no result.
            if found.violated.any():
                told = f"the error exceeds the bound at {found.violated.sum()} of {found.error.size} probed rows"
                row |= {"outcome": "case_error", "error": told}
        except Exception as error:  # noqa: BLE001  (one arm's failure is that arm's record)
            outcome, reason = outcome_of(error)
            row = {"outcome": outcome, "error": reason}
        rows.append(Measured(arm, row))
    return rows


def spread(positions: Positions, most: int = PROBED_ROWS) -> Positions:
    """At most `most` of the positions, evenly spread over them, first and last included."""
    if len(positions) <= most:
        return positions
    return positions[np.linspace(0, len(positions) - 1, most).round().astype(np.int64)]
