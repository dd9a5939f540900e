"""The execution benchmark's flow: what is missing of its studies, timed on one worker that has the machine alone."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from prefect import flow
from prefect.runtime import deployment

from cachemend.datasets.cohort import read_cohort
from cachemend.flows.execution_config import ExecutionBenchConfig
from cachemend.flows.execution_summary import ExecutionSummary, print_execution_summary, summarise_execution
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
from cachemend.repair_core.random_models import is_random
from cachemend.tasks.build_cohort import Wanted, build_cohorts
from cachemend.tasks.edit_cost_work import device_name
from cachemend.tasks.execution.identity import EXPERIMENT, ExecutionIdentity
from cachemend.tasks.execution.lines import OWN_ATTENTION, OWN_EXECUTOR
from cachemend.tasks.execution.work import ExecutionRoster
from cachemend.tasks.run_rows import RunLog
from cachemend.tasks.work import get_work


class _Occasion(NamedTuple):
    config: ExecutionBenchConfig
    results: Path
    name: RunName
    limit: int | None
    address: str | None


@flow(name=EXPERIMENT)
def execution_bench(
    config: ExecutionBenchConfig, results: str, limit: int | None = None, address: str | None = None
) -> ExecutionSummary:
    """Time what is missing of the chosen studies and print the tables.

    Args:
        config: the settings.
        results: results folder.
        limit: only the first lengths, and the first contexts of recovery; None for all.
        address: a running Ray cluster; None for one of our own.

    Raises:
        InputError: bad settings, a model that cannot be loaded or does not fit the worker's memory, a folder that
            cannot be written.
        SomeFailed: in a scheduled run, some lines failed.
    """
    occasion = _Occasion(config, Path(results).absolute(), run_name(), limit, address)
    config.check_model()
    check_writable(occasion.results)
    spec = config.worker(max_new_tokens=0, score_rule="none")
    wanted = [Wanted(f"execution-{study}", _roster(config, study), occasion.name.run_id) for study in config.studies]
    files = build_cohorts(wanted, spec, results=occasion.results, limit=limit, store_text=config.store_text)
    tally = Tally()
    with staffed(spec, address, workers=1, threads=config.threads) as staff:
        identities = [
            _time(occasion, staff, study, file, tally) for study, file in zip(config.studies, files, strict=True)
        ]
    summary = summarise_execution(
        occasion.results, occasion.name.run_id, identities[-1], config.studies, n_written=tally.written.n_records
    )
    print_execution_summary(summary)
    if deployment.id and summary.failures:
        raise SomeFailed(summary.failure_line)
    return summary


def _roster(config: ExecutionBenchConfig, study: str) -> Any:
    if study == "recovery":
        return config.recovery_lengths
    return ExecutionRoster(config.timed_lengths(), config.rows)


def _time(occasion: _Occasion, staff: Staff, study: str, cohort_file: Path, total: Tally) -> ExecutionIdentity:
    config, results, work = occasion.config, occasion.results, get_work(f"execution-{study}")
    cohort = read_cohort(cohort_file, work.case_type)
    identity = ExecutionIdentity(
        experiment=EXPERIMENT,
        cohort_digest=cohort.digest,
        model=config.model,
        model_fingerprint=staff.model.fingerprint,
        dtype=staff.model.dtype,
        executor=OWN_EXECUTOR,
        attention=OWN_ATTENTION,
        decoding=cohort.manifest["decoding"],
        score_rule=cohort.manifest["score_rule"],
        engine_version=ENGINE_VERSION,
        device=device_name(staff.model.hardware),
        weights="random" if is_random(config.model) else "checkpoint",
        torch_version=torch.__version__,
    )
    cases, arms = cohort.prefix(occasion.limit).cases, (config.arms()[study],)
    log = RunLog(
        work=work,
        results=results,
        run_id=f"{occasion.name.run_id}-{study}",
        identity=identity,
        model=staff.model,
        manifest=cohort.manifest,
        settings=_chosen(occasion, study, staff),
        n_cases=len(cases),
        n_arms=len(arms),
        git=code_state(),
    )
    with logged(log) as tally:
        compute(log, staff, cohort_file, dict.fromkeys(range(len(cases)), arms), tally)
    total.add(tally.written)
    return identity


def _chosen(occasion: _Occasion, study: str, staff: Staff) -> dict[str, Any]:
    lengths: Sequence[int] = occasion.config.timed_lengths()
    return {
        **occasion.config.model_dump(mode="json"),
        "study": study,
        "lengths": list(lengths),
        "workers": staff.size.workers,
        "threads": staff.size.threads,
        "limit": occasion.limit,
        "address": occasion.address,
        "nominal_time": occasion.name.nominal.isoformat(),
    }
