"""The flow of the numerical controls: one cohort, up to three studies, each resumed where it was left."""

from pathlib import Path
from typing import Any

from prefect import flow
from prefect.runtime import deployment

from cachemend.datasets.cohort import Cohort, read_cohort
from cachemend.datasets.niah_case import NiahCase
from cachemend.flows.numerical_config import NumericalConfig
from cachemend.flows.numerical_summary import NumericalSummary, print_numerical_summary, summarise_numerics
from cachemend.flows.results_folder import check_writable
from cachemend.flows.running import (
    RunName,
    SomeFailed,
    Staff,
    Tally,
    code_state,
    compute,
    logged,
    run_name,
    staffed,
)
from cachemend.repair_core import ENGINE_VERSION
from cachemend.tasks.build_cohort import Wanted, build_cohorts
from cachemend.tasks.numerics.arms import EXPERIMENT, NO_EXECUTOR, NumericIdentity
from cachemend.tasks.numerics.works import BOUND, PROBES, REPEATS
from cachemend.tasks.run_rows import RunLog

WORKS = {"repeats": REPEATS, "probes": PROBES, "bound": BOUND}


@flow(name=EXPERIMENT)
def numerical_controls(
    config: NumericalConfig, results: str, limit: int | None = None, address: str | None = None
) -> NumericalSummary:
    """Run what is missing of the chosen studies and print the result.

    Args:
        config: the settings.
        results: results folder.
        limit: only the first cases of the cohort; None for all.
        address: a running Ray cluster; None for one of our own.

    Raises:
        InputError: bad settings, a case the model cannot hold, a model that cannot be loaded or repaired, a folder that
            cannot be written.
        SomeFailed: in a scheduled run, some records failed.
    """
    name = run_name()
    folder = Path(results).absolute()
    config.check_model()
    check_writable(folder)
    roster = config.roster()
    spec = config.worker(max_new_tokens=roster.max_new_tokens, score_rule=roster.score_rule)
    tally = Tally()
    with staffed(spec, address, workers=config.workers, threads=config.threads) as staff:
        wanted = Wanted(REPEATS.name, roster, name.run_id)
        (cohort_file,) = build_cohorts([wanted], spec, results=folder, limit=limit, store_text=False)
        cohort = read_cohort(cohort_file, NiahCase)
        identity = _identity(config, staff, cohort)
        n_cases = len(cohort.prefix(limit).cases)
        for study in config.studies:
            work, arms = WORKS[study], config.arms(study)
            log = RunLog(
                work=work,
                results=folder,
                run_id=f"{name.run_id}-{study}",
                identity=identity,
                model=staff.model,
                manifest=cohort.manifest,
                settings=_chosen(config, study, limit, address, name, staff),
                n_cases=n_cases,
                n_arms=len(arms),
                git=code_state(),
            )
            with logged(log) as done:
                compute(log, staff, cohort_file, dict.fromkeys(range(n_cases), arms), done)
            tally.add(done.written)
    tables = {study: WORKS[study].table for study in config.studies}
    summary = summarise_numerics(folder, name.run_id, identity, tables, tally.written.n_records)
    print_numerical_summary(summary)
    if deployment.id and summary.failures:
        raise SomeFailed(summary.failure_line)
    return summary


def _identity(config: NumericalConfig, staff: Staff, cohort: Cohort) -> NumericIdentity:
    return NumericIdentity(
        experiment=EXPERIMENT,
        cohort_digest=cohort.digest,
        model=config.model,
        model_fingerprint=staff.model.fingerprint,
        dtype=staff.model.dtype,
        executor=NO_EXECUTOR,
        attention=config.attention,
        decoding=cohort.manifest["decoding"],
        score_rule=cohort.manifest["score_rule"],
        engine_version=ENGINE_VERSION,
    )


def _chosen(
    config: NumericalConfig, study: str, limit: int | None, address: str | None, name: RunName, staff: Staff
) -> dict[str, Any]:
    return {
        **config.model_dump(mode="json"),
        "study": study,
        "cases": config.roster().name,
        "lengths": list(config.roster().lengths),
        "workers": staff.size.workers,
        "threads": staff.size.threads,
        "limit": limit,
        "address": address,
        "nominal_time": name.nominal.isoformat(),
    }
