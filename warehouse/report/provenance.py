"""The runs behind the records: when, on what, from which code and cohort."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from cachemend.warehouse import store


class Drop(NamedTuple):
    """A reason for which the cohort's builder dropped candidates, and how many."""

    reason: str
    times: int


@dataclass(frozen=True, kw_only=True)
class Run:
    """One row of the view `runs`, its JSON read."""

    run_id: str
    experiment: str
    status: str
    started_at: datetime
    finished_at: datetime | None
    model: str
    model_fingerprint: str | None
    dtype: str
    cohort: str | None
    cohort_digest: str | None
    cohort_manifest: Any
    config: Any
    n_cases: int | None
    n_arms: int | None
    n_records: int | None
    n_failed: int | None
    git_commit: str | None
    git_dirty: bool | None
    versions: Any
    hardware: Any
    seeds: Any
    timed_stages: Sequence[str] | None
    engine_version: int

    @property
    def seconds(self) -> float | None:
        """Wall time from start to end; None while running."""
        return None if self.finished_at is None else (self.finished_at - self.started_at).total_seconds()

    @property
    def strata(self) -> Mapping[str, int]:
        """Cases per stratum of the whole cohort; empty if the manifest does not say."""
        return _counts(self._manifest.get("strata"))

    @property
    def drops(self) -> tuple[Drop, ...]:
        """Dropped candidates by reason, the most frequent first."""
        found = self._manifest.get("drops")
        entries = found if isinstance(found, list) else []
        reasons = Counter(str(e.get("reason", e)) if isinstance(e, dict) else str(e) for e in entries)
        return tuple(Drop(reason, count) for reason, count in reasons.most_common())

    @property
    def candidates(self) -> int | None:
        """Candidates the builder tried."""
        value = self._manifest.get("n_candidates")
        return value if isinstance(value, int) else None

    @property
    def cohort_cases(self) -> int | None:
        """Cases of the whole cohort."""
        value = self._manifest.get("n_cases")
        return value if isinstance(value, int) else None

    @property
    def cohort_facts(self) -> dict[str, Any]:
        """The manifest without its long lists."""
        long = ("case_digests", "drops", "seeds")
        return {name: value for name, value in self._manifest.items() if name not in long}

    @property
    def _manifest(self) -> dict[str, Any]:
        return self.cohort_manifest if isinstance(self.cohort_manifest, dict) else {}


_JSON = ("cohort_manifest", "config", "versions", "hardware", "seeds")


def read_runs(results: Path) -> list[Run]:
    """Return the runs of a results folder, the latest first."""
    names = list(Run.__dataclass_fields__)
    answer = store.ask(results, f"SELECT {', '.join(names)} FROM runs ORDER BY started_at DESC, run_id")
    return [_run(row) for row in answer.table.to_pylist()]


def read_cohort_names(results: Path) -> dict[str, str]:
    """Return the name of every cohort that has a stored case, by digest."""
    answer = store.ask(
        results,
        "SELECT cohort_digest, cohort FROM cases UNION SELECT cohort_digest, cohort FROM edit_cases ORDER BY ALL",
    )
    return {row["cohort_digest"]: row["cohort"] for row in answer.table.to_pylist()}


def cohort_sizes(runs: Iterable[Run], cohort_digest: str) -> Mapping[str, int]:
    """Return the cases per stratum of a cohort, from the latest run that says."""
    return next((run.strata for run in runs if run.cohort_digest == cohort_digest and run.strata), {})


def _run(row: Mapping[str, Any]) -> Run:
    parsed = {name: None if row[name] is None else json.loads(row[name]) for name in _JSON}
    return Run(**{**row, **parsed})


def _counts(value: object) -> dict[str, int]:
    if not isinstance(value, dict):
        return {}
    return {str(name): count for name, count in value.items() if isinstance(count, int)}
