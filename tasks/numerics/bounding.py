"""Proposition 14.1 on the layers of a real refresh: error and bound at probed rows of a case."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import torch

from cachemend.datasets.niah_case import NiahCase
from cachemend.repair_core import LoadedModel
from cachemend.repair_core.caches import read_rows
from cachemend.repair_core.intervals import Positions
from cachemend.repair_core.residual_bound import ResidualProbe, probe_residual
from cachemend.tasks.failures import outcome_of
from cachemend.tasks.numerics.arms import PathArm
from cachemend.tasks.numerics.building import BuiltPath, build_path, fresh_context
from cachemend.tasks.numerics.finishing import finished
from cachemend.tasks.work import Measured

PROBED_ROWS = 16

MOST_APART = {torch.float64: 1e-3, torch.float32: 1e-3, torch.float16: 0.0125, torch.bfloat16: 0.1}
"""The most that a probed row's fresh keys and values may be from the cached ones, relative L2, by the cache's type.

In FP32 hundreds of times what rounding leaves. In half precision some 25 units of roundoff (2^-11 and 2^-8), which 30
layers of rounding stay below.
"""

_REPLAY = PathArm(path="replay")


def bound_case(loaded: LoadedModel, case: NiahCase, arms: Sequence[PathArm], attention: str) -> list[Measured]:
    """Evaluate both sides in every layer and head; one measurement per arm, failures included."""
    context = fresh_context(loaded, case)
    replayed = cache(lambda: build_path(context, _REPLAY, attention).cache)
    ids = torch.as_tensor(case.deletion.edited_ids, dtype=torch.int64)
    rows = []
    for arm in arms:
        try:
            built = build_path(context, arm, attention)
            where = spread(built.positions)
            row = _row(built, where, probe_residual(loaded.model, built.cache, replayed(), ids, where))
        except Exception as error:  # noqa: BLE001  (one arm's failure is that arm's record)
            outcome, reason = outcome_of(error)
            row = {"outcome": outcome, "error": reason}
        rows.append(Measured(arm, row))
    return rows


def _row(built: BuiltPath, where: Positions, probe: ResidualProbe) -> dict[str, Any]:
    found, worst = probe.found, int(probe.reproduced.argmax())
    seen: dict[str, Any] = {
        "n_positions": len(built.positions),
        "n_intervals": built.n_intervals,
        "reproduced": float(probe.reproduced[worst]),
        "outcome": "ok",
    }
    # What was not read as the refresh read it, and what is no number, is evidence neither for the bound nor against it.
    limit = MOST_APART[read_rows(built.cache)[0].keys.dtype]
    if not seen["reproduced"] <= limit:
        apart = f"{seen['reproduced']:.3g} from the cached ones in layer {worst}, more than {limit:g}"
        return finished(seen, f"the probe does not see what the refresh saw: fresh keys or values are {apart}")
    odd = ~np.logical_and.reduce([np.isfinite(part) for part in found])
    if odd.any():
        return finished(seen, f"error or bound is not finite at {odd.sum()} of {odd.size} probed rows")
    layers, heads, _ = np.indices(found.error.shape)
    row = seen | {
        "n_probed": found.error.size,
        "layer": layers.ravel().tolist(),
        "head": heads.ravel().tolist(),
        "position": np.broadcast_to(where, found.error.shape).ravel().tolist(),
        "error_norm": found.error.ravel().tolist(),
        "value_term": found.value_term.ravel().tolist(),
        "bound_measured": found.measured.ravel().tolist(),
        "bound": found.bound.ravel().tolist(),
        "violated": found.violated.astype(np.int64).ravel().tolist(),
    }
    # The proposition is proved: a violation is a fault of what was measured, and the row no result.
    n_over = int(found.violated.sum())
    return finished(row, f"the error exceeds the bound at {n_over} of {odd.size} probed rows" if n_over else None)


def spread(positions: Positions, most: int = PROBED_ROWS) -> Positions:
    """At most `most` of the positions, evenly spread over them, first and last included."""
    if len(positions) <= most:
        return positions
    return positions[np.linspace(0, len(positions) - 1, most).round().astype(np.int64)]
