"""The Erasing-NIAH flow: build the cohort, see what is missing, run it, show the table (paper sections 4.2, 7)."""

from datetime import datetime
from pathlib import Path
from typing import Any

from prefect import flow
from prefect.runtime import deployment

from cachemend.datasets.cohort import read_cohort
from cachemend.datasets.niah_case import NiahCase
from cachemend.flows.config import ErasingNiahConfig
from cachemend.flows.results_folder import check_writable
from cachemend.flows.running import SomeFailed, code_state, compute, logged, run_name, staffed
from cachemend.flows.summary import Summary, print_summary, summarise
from cachemend.repair_core import ENGINE_VERSION
from cachemend.tasks.build_cohort import Wanted, build_cohorts
from cachemend.tasks.identity import RunIdentity
from cachemend.tasks.niah_work import WORK
from cachemend.tasks.run_rows import RunLog
from cachemend.tasks.sizing import PoolSize

__all__ = ["SomeFailed", "erasing_niah"]

EXPERIMENT = WORK.experiment


@flow(name=EXPERIMENT)
def erasing_niah(
    config: ErasingNiahConfig, results: str, limit: int | None = None, address: str | None = None
) -> Summary:
    """Run what is missing of the sweep and print the result.

    Args:
        config: the settings.
        results: results folder.
        limit: only the first cases of the cohort; None for all.
        address: a running Ray cluster; None for one of our own.

    Raises:
        InputError: bad settings, a model that cannot be loaded or repaired, a folder that cannot be written.
        SomeFailed: in a scheduled run, some records failed.
    """
    name = run_name()
    folder = Path(results).absolute()
    config.check_model()
    check_writable(folder)
    roster = config.roster()
    spec = config.worker(max_new_tokens=roster.max_new_tokens, score_rule=roster.score_rule, auxiliary=config.auxiliary)
    with staffed(spec, address, workers=config.workers, threads=config.threads) as staff:
        wanted = Wanted(WORK.name, roster, name.run_id)
        (cohort_file,) = build_cohorts([wanted], spec, results=folder, limit=limit, store_text=config.store_text)
        cohort = read_cohort(cohort_file, NiahCase)
        identity = RunIdentity(
            experiment=EXPERIMENT,
            cohort_digest=cohort.digest,
            model=config.model,
            model_fingerprint=staff.model.fingerprint,
            dtype=staff.model.dtype,
            auxiliary=staff.model.auxiliary,
            executor=config.executor,
            attention=config.attention,
            decoding=cohort.manifest["decoding"],
            score_rule=cohort.manifest["score_rule"],
            engine_version=ENGINE_VERSION,
        )
        arms = config.arms()
        cases = cohort.prefix(limit).cases
        log = RunLog(
            work=WORK,
            results=folder,
            run_id=name.run_id,
            identity=identity,
            model=staff.model,
            manifest=cohort.manifest,
            settings=_chosen(config, limit, address, name.nominal, staff.size),
            n_cases=len(cases),
            n_arms=len(arms),
            git=code_state(),
        )
        with logged(log) as tally:
            compute(log, staff, cohort_file, dict.fromkeys(range(len(cases)), arms), tally)
    summary = summarise(
        folder,
        name.run_id,
        identity,
        [case.digest for case in cases],
        [arm.name for arm in arms],
        tally.written.n_records,
    )
    print_summary(summary)
    if deployment.id and summary.failures:
        raise SomeFailed(summary.failure_line)
    return summary


def _chosen(
    config: ErasingNiahConfig,
    limit: int | None,
    address: str | None,
    nominal: datetime,
    size: PoolSize,
) -> dict[str, Any]:
    return {
        **config.model_dump(mode="json"),
        "allocators": list(dict.fromkeys(arm.allocator for arm in config.arms() if arm.budget is not None)),
        "budgets": list(dict.fromkeys(arm.budget for arm in config.arms() if arm.budget is not None)),
        "cases": config.roster().name,
        "lengths": list(config.roster().lengths),
        "workers": size.workers,
        "threads": size.threads,
        "limit": limit,
        "address": address,
        "nominal_time": nominal.isoformat(),
    }
