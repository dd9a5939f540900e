"""The edit-repair flow: several studies of one model, each resumed where it was left, then their analysis."""

from pathlib import Path
from typing import Any

from prefect import flow
from prefect.runtime import deployment

from cachemend.datasets.edit_score import FLIP_RULE, MAX_NEW_TOKENS
from cachemend.flows.edit_cohorts import Occasion, Prepared, prepare
from cachemend.flows.edit_config import EditRepairConfig
from cachemend.flows.edit_summary import Covered, EditSummary, print_edit_summary, summarise_edits
from cachemend.flows.edit_units import (
    Unit,
    make_unit,
    nothing_to_replay,
    run_cost,
    run_main,
    run_operators,
    run_sequences,
    run_severity,
)
from cachemend.flows.results_folder import check_writable
from cachemend.flows.running import SomeFailed, Staff, Tally, run_name, staffed
from cachemend.tasks.analyse_edits import Analysed, analyse_edits
from cachemend.tasks.edit_work import EXPERIMENT


@flow(name=EXPERIMENT)
def edit_repair(
    config: EditRepairConfig, results: str, limit: int | None = None, address: str | None = None
) -> EditSummary:
    """Run what is missing of the chosen studies, analyse, and print the result.

    Args:
        config: the settings.
        results: results folder.
        limit: only the first cases of every cohort; None for all.
        address: a running Ray cluster; None for one of our own.

    Raises:
        InputError: bad settings, a cohort that cannot be built, a model that cannot be loaded or repaired, a folder
            that cannot be written.
        SomeFailed: in a scheduled run, some records failed.
    """
    name = run_name()
    folder = Path(results).absolute()
    config.check_model()
    check_writable(folder)
    occasion = Occasion(
        config=config,
        spec=config.worker(max_new_tokens=MAX_NEW_TOKENS, score_rule=FLIP_RULE, min_gap=config.min_gap),
        results=folder,
        run_id=name.run_id,
        nominal=name.nominal,
        limit=limit,
        address=address,
    )
    # Before any worker: what cannot be built ends the run at once.
    prepared = prepare(occasion)
    course = _Course(occasion)
    if set(config.studies) != {"cost"}:
        with staffed(occasion.spec, address, workers=config.workers, threads=config.threads) as staff:
            for each in prepared:
                if each.study != "cost":
                    course.run(each, staff)
    if "cost" in config.studies:
        # Nothing else may run beside what is timed.
        with staffed(occasion.spec, address, workers=1, threads=config.threads) as staff:
            course.run(prepared[-1], staff)
    policy_file = analyse_edits(folder, course.analysed, occasion.spec, run_id=name.run_id, primary_k=config.primary_k)
    summary = summarise_edits(
        folder,
        name.run_id,
        course.covered,
        primary_k=config.primary_k,
        n_written=course.tally.written.n_records,
        notes=course.notes,
        arms=[arm.name for arm in config.arms()],
        spot_check=config.spot_check,
        seed=config.seed or 0,
        policy_file=policy_file,
    )
    print_edit_summary(summary)
    if deployment.id and summary.failures:
        raise SomeFailed(summary.failure_line)
    return summary


class _Course:
    """The studies of one flow run, one after another, and what they covered."""

    def __init__(self, occasion: Occasion) -> None:
        self.occasion = occasion
        self.tally = Tally()
        self.covered: list[Covered] = []
        self.analysed: list[Analysed] = []
        self.notes: list[str] = []

    def run(self, prepared: Prepared, staff: Staff) -> None:
        """Run a study on one of its cohorts."""
        unit = make_unit(self.occasion, staff, prepared)
        if prepared.study == "sequences":
            self._count(unit, run_sequences(unit))
        elif prepared.study == "cost":
            self.tally.add(run_cost(unit).written)
        else:
            self._items(prepared.study, unit, prepared.roster)

    def _items(self, study: str, unit: Unit, roster: Any) -> None:
        if study == "main":
            done: Tally | None = run_main(unit, roster)
        elif study == "severity":
            done = run_severity(unit)
        else:
            done = run_operators(unit)
        if done is None:
            missing = nothing_to_replay(unit)
            if self.occasion.config.study == study:
                raise missing
            self.notes.append(f"note: {missing}")
            return
        self._count(unit, done)
        analysed = Analysed(cohort_file=unit.cohort_file, identity=unit.identity)
        if analysed not in self.analysed:
            self.analysed.append(analysed)

    def _count(self, unit: Unit, done: Tally) -> None:
        self.tally.add(done.written)
        self.covered.append(Covered(unit.identity, unit.work.table, frozenset(case.digest for case in unit.cases)))
