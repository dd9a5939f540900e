"""The cohorts of an edit-repair run: all of them built and checked before anything is computed."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from cachemend.flows.edit_config import EditRepairConfig
from cachemend.tasks.build_cohort import Wanted, build_cohorts
from cachemend.tasks.worker_spec import WorkerSpec

COST = "edit-cost"


@dataclass(frozen=True, kw_only=True)
class Occasion:
    """One run of the flow.

    Attributes:
        config: its settings.
        spec: what its workers are told.
        results: results folder.
        run_id: its name; each study on a cohort adds its own.
        nominal: the time it belongs to.
        limit, address: as the flow takes them.
    """

    config: EditRepairConfig
    spec: WorkerSpec
    results: Path
    run_id: str
    nominal: datetime
    limit: int | None
    address: str | None


class Prepared(NamedTuple):
    """A study, the name of its kind of work, the roster it is on, and the file of the cohort."""

    study: str
    work_name: str
    roster: Any
    cohort_file: Path


def unit_run_id(occasion: Occasion, study: str, cohort: str) -> str:
    """The run of a study on a cohort."""
    return f"{occasion.run_id}-{study}-{cohort}"


def prepare(occasion: Occasion) -> list[Prepared]:
    """Build the cohorts of all studies, in their order; what several studies share is built once.

    Raises:
        InputError: a cohort that cannot be built, or that the model cannot hold; nothing is written.
    """
    config = occasion.config
    places: list[tuple[str, str, Any]] = []
    wanted: dict[tuple[str, Any], Wanted] = {}
    for study in config.studies:
        work_name, rosters = _rosters(config, study)
        for roster in rosters:
            label = COST if study == "cost" else roster.name
            others = config.tokenizers or () if work_name == "edit-repair" else ()
            order = Wanted(work_name, roster, unit_run_id(occasion, study, label), others)
            wanted.setdefault((work_name, roster), order)
            places.append((study, work_name, roster))
    files = build_cohorts(
        list(wanted.values()),
        occasion.spec,
        results=occasion.results,
        limit=occasion.limit,
        store_text=config.store_text,
    )
    built = dict(zip(wanted, files, strict=True))
    return [Prepared(*place, built[place[1:]]) for place in places]


def _rosters(config: EditRepairConfig, study: str) -> tuple[str, tuple[Any, ...]]:
    """The kind of work of a study, and what its cohorts are built from."""
    if study == "sequences":
        return "edit-sequences", config.sequence_rosters()
    if study == "cost":
        return COST, (config.cost_lengths(),)
    return "edit-repair", config.rosters(study)
