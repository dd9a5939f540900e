"""The rows a run writes about itself, one at its start and one at its end."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cachemend.tasks.identity import SharedIdentity
from cachemend.tasks.provenance import GitState, versions
from cachemend.tasks.run_shards import Written
from cachemend.tasks.work import Work
from cachemend.tasks.worker_spec import ModelIdentity
from cachemend.warehouse.parts import write_part


@dataclass(frozen=True, kw_only=True)
class RunLog:
    """Writes the rows of one run.

    Attributes:
        work: the kind of work.
        results: results folder.
        run_id: the run.
        identity: what the run's records share.
        model: the model as loaded.
        manifest: the cohort's.
        settings: what the user chose.
        n_cases, n_arms: cases of the run, arms of each.
        git: state of the code.
        started_at: when it began, UTC.
    """

    work: Work
    results: Path
    run_id: str
    identity: SharedIdentity
    model: ModelIdentity
    manifest: Mapping[str, Any]
    settings: Mapping[str, Any]
    n_cases: int
    n_arms: int
    git: GitState
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    def write(self, status: str, written: Written | None = None) -> None:
        """Write the row for `status`: "running", "done" or "failed"."""
        now = datetime.now(UTC)
        row = {
            "run_id": self.run_id,
            "experiment": self.identity.experiment,
            "status": status,
            "started_at": self.started_at,
            "finished_at": None if status == "running" else now,
            "model": self.identity.model,
            "model_fingerprint": self.identity.model_fingerprint,
            "dtype": self.identity.dtype,
            "cohort": self.manifest["name"],
            "cohort_digest": self.identity.cohort_digest,
            "cohort_manifest": json.dumps(self.manifest),
            "config": json.dumps(self.settings),
            "n_cases": self.n_cases,
            "n_arms": self.n_arms,
            "n_records": written.n_records if written else None,
            "n_failed": written.n_failed if written else None,
            "git_commit": self.git.commit,
            "git_dirty": self.git.dirty,
            "versions": json.dumps({**versions(), "model_revision": self.model.revision}),
            "hardware": json.dumps(self.model.hardware),
            "seeds": json.dumps({"cases": self.manifest["seeds"], **self.work.seeds}),
            "timed_stages": list(self.work.timed_stages),
            "engine_version": self.identity.engine_version,
            "recorded_at": now,
        }
        write_part(self.results, "runs", [row])
