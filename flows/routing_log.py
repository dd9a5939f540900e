"""The rows a routing run writes about itself, one pair of them for every pool."""

import json
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from cachemend.calibration.splits import FRACTIONS
from cachemend.flows.results_folder import kept
from cachemend.flows.routing_config import ResponseRoutingConfig
from cachemend.flows.routing_pools import Pool
from cachemend.flows.running import RunName, code_state
from cachemend.tasks.provenance import GitState, hardware, versions
from cachemend.tasks.routing.identity import RouteIdentity
from cachemend.tasks.run_shards import Written
from cachemend.warehouse.parts import write_part

TABLE = "route_records"


@dataclass(frozen=True, kw_only=True)
class RoutingLog:
    """Writes the rows of one pool's part of a run.

    Attributes:
        results: results folder.
        run_id: the run and the pool.
        identity: what the pool's records share.
        manifest: the pool's.
        n_pairs: pairs of the run.
        config: what the user chose.
        git: state of the code.
        started_at: when it began, UTC.
    """

    results: Path
    run_id: str
    identity: RouteIdentity
    manifest: dict[str, Any]
    n_pairs: int
    config: ResponseRoutingConfig
    git: GitState
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    @classmethod
    def of(
        cls, results: Path, name: RunName, identity: RouteIdentity, pool: Pool, config: ResponseRoutingConfig
    ) -> Self:
        """The log of a pool."""
        return cls(
            results=results,
            run_id=f"{name.run_id}-{pool.name}",
            identity=identity,
            manifest=pool.cohort.manifest,
            n_pairs=len(pool.cohort.cases),
            config=config,
            git=code_state(),
        )

    def write(self, status: str, written: Written | None = None) -> None:
        """Write the row for `status`: "running", "done" or "failed"."""
        self._write(status, written)
        if status == "failed":
            print(kept(self.results, self.run_id, TABLE), file=sys.stderr)

    def _write(self, status: str, written: Written | None) -> None:
        now = datetime.now(UTC)
        config = self.config
        row = {
            "run_id": self.run_id,
            "experiment": self.identity.experiment,
            "status": status,
            "started_at": self.started_at,
            "finished_at": None if status == "running" else now,
            "model": self.identity.verifier_model,
            "model_fingerprint": self.identity.verifier,
            "dtype": config.dtype,
            "cohort": self.manifest["name"],
            "cohort_digest": self.identity.cohort_digest,
            "cohort_manifest": json.dumps(self.manifest),
            "config": json.dumps(config.model_dump(mode="json")),
            "n_cases": self.n_pairs,
            "n_arms": 1,
            "n_records": written.n_records if written else None,
            "n_failed": written.n_failed if written else None,
            "git_commit": self.git.commit,
            "git_dirty": self.git.dirty,
            "versions": json.dumps(versions()),
            "hardware": json.dumps(hardware()),
            "seeds": json.dumps({"pairs": self.manifest.get("seed"), "splits": config.seed, "shares": FRACTIONS}),
            "timed_stages": [],
            "engine_version": self.identity.engine_version,
            "recorded_at": now,
        }
        write_part(self.results, "runs", [row])
