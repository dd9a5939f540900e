"""The Erasing-NIAH flow: build the cohort, see what is missing, run it, show the table (paper sections 4.2, 7)."""

import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prefect import flow
from prefect.runtime import deployment, flow_run

from cachemend.datasets.cohort import read_cohort
from cachemend.datasets.niah_case import NiahCase
from cachemend.flows.config import ErasingNiahConfig
from cachemend.flows.results_folder import check_writable, kept
from cachemend.flows.settings import Settings, load_settings
from cachemend.flows.summary import Summary, print_summary, summarise
from cachemend.repair_core import ENGINE_VERSION
from cachemend.tasks.build_cohort import build_cohort
from cachemend.tasks.cluster import connected
from cachemend.tasks.identify import identify_model
from cachemend.tasks.plan import plan_shards
from cachemend.tasks.pool import WorkerPool
from cachemend.tasks.provenance import GitState, git_state
from cachemend.tasks.records import RunIdentity
from cachemend.tasks.run_rows import RunLog
from cachemend.tasks.run_shards import run_shards
from cachemend.tasks.sizing import pool_size, weight_bytes
from cachemend.tasks.worker_spec import WorkerSpec

EXPERIMENT = "erasing-niah"


class SomeFailed(RuntimeError):
    """A scheduled run ended with failed records; the state of the flow run must say so."""


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
    # A scheduled run belongs to the time it was scheduled for, however late it starts.
    nominal = flow_run.scheduled_start_time.astimezone(UTC)
    run_id = f"{nominal:%Y%m%dT%H%M%S}-{str(flow_run.id)[-8:]}"
    folder = Path(results).absolute()
    config.check_model()
    check_writable(folder)
    settings = load_settings()
    spec = worker_spec(config)
    workers, threads = config.workers or settings.workers, config.threads or settings.threads
    with connected(address, _cores(workers, threads)) as have:
        size = pool_size(have, spec, workers=workers, threads=threads, model_bytes=weight_bytes(spec))
        with WorkerPool(spec, size) as pool:
            model = identify_model(pool)
            cohort_file = build_cohort(
                EXPERIMENT,
                config.roster(),
                spec,
                results=folder,
                run_id=run_id,
                limit=limit,
                store_text=config.store_text,
            )
            cohort = read_cohort(cohort_file, NiahCase)
            identity = RunIdentity(
                experiment=EXPERIMENT,
                cohort_digest=cohort.digest,
                model=config.model,
                model_fingerprint=model.fingerprint,
                dtype=model.dtype,
                auxiliary=model.auxiliary,
                executor=config.executor,
                attention=config.attention,
                decoding=cohort.manifest["decoding"],
                score_rule=cohort.manifest["score_rule"],
                engine_version=ENGINE_VERSION,
            )
            arms = config.arms()
            cases = cohort.prefix(limit).cases
            plan = plan_shards(folder, cohort_file, limit, arms, identity)
            for line in plan.corrupt:
                print(f"warning: {line}", file=sys.stderr)
            log = RunLog(
                results=folder,
                run_id=run_id,
                identity=identity,
                model=model,
                manifest=cohort.manifest,
                settings=_chosen(config, limit, address, nominal, size.workers, size.threads),
                n_cases=len(cases),
                n_arms=len(arms),
                git=_git(settings),
            )
            log.write("running")
            try:
                written = run_shards(
                    pool, plan.shards, results=folder, cohort_file=cohort_file, identity=identity, run_id=run_id
                )
            except BaseException:
                log.write("failed")
                print(kept(folder, run_id), file=sys.stderr)
                raise
            log.write("done", written)
    summary = summarise(
        folder, run_id, identity, [case.digest for case in cases], [arm.name for arm in arms], written.n_records
    )
    print_summary(summary)
    if deployment.id and summary.failures:
        raise SomeFailed(summary.failure_line)
    return summary


def worker_spec(config: ErasingNiahConfig) -> WorkerSpec:
    """What the workers of a run with these settings are told."""
    roster = config.roster()
    return WorkerSpec(
        model=config.model,
        revision=config.revision,
        dtype=config.dtype,
        device=config.device,
        device_map=config.device_map,
        trust_remote_code=config.trust_remote_code,
        executor=config.executor,
        attention=config.attention,
        auxiliary=config.auxiliary,
        max_new_tokens=roster.max_new_tokens,
        score_rule=roster.score_rule,
    )


def _cores(workers: int | None, threads: int | None) -> int | None:
    """Cores our own cluster must report for what the user asks; None for the machine's."""
    wanted = (workers or 0) * (threads or 1)
    return wanted if wanted > (os.cpu_count() or 1) else None


def _chosen(
    config: ErasingNiahConfig,
    limit: int | None,
    address: str | None,
    nominal: datetime,
    workers: int,
    threads: int,
) -> dict[str, Any]:
    return {
        **config.model_dump(mode="json"),
        "allocators": list(dict.fromkeys(arm.allocator for arm in config.arms() if arm.budget is not None)),
        "budgets": list(dict.fromkeys(arm.budget for arm in config.arms() if arm.budget is not None)),
        "cases": config.roster().name,
        "lengths": list(config.roster().lengths),
        "workers": workers,
        "threads": threads,
        "limit": limit,
        "address": address,
        "nominal_time": nominal.isoformat(),
    }


def _git(settings: Settings) -> GitState:
    if settings.git_commit is not None:
        return GitState(settings.git_commit, settings.git_dirty)
    return git_state()
