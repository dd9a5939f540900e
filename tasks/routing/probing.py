"""The stage that asks whether one side of a pool's pairs alone tells their labels."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cachemend.datasets.cohort import read_cohort
from cachemend.datasets.pair import Pair
from cachemend.datasets.pair_artifacts import artifacts
from cachemend.tasks.routing.identity import RouteIdentity
from cachemend.tasks.stage import stage
from cachemend.warehouse.parts import write_part


@stage(name="probe pairs")
def probe_pairs(results: Path, cohort_file: Path, identity: RouteIdentity, *, run_id: str) -> None:
    """Probe either side of the pairs of every source and store what was found.

    Args:
        results: results folder.
        cohort_file: the pool.
        identity: what its records share; the probe depends on none of the models.
        run_id: the run.
    """
    shared = {
        "experiment": identity.experiment,
        "cohort_digest": identity.cohort_digest,
        "pool": identity.pool,
        "run_id": run_id,
        "recorded_at": datetime.now(UTC),
    }
    rows: list[dict[str, Any]] = [
        {**shared, **found._asdict()} for found in artifacts(read_cohort(cohort_file, Pair).cases)
    ]
    write_part(results, "routing_probe_rows", rows)
