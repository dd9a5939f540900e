"""The response-routing flow: pools of pairs are built, measured where they are not yet, and analysed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prefect import flow
from prefect.runtime import deployment

from cachemend.calibration.conditions import load_lexicon
from cachemend.calibration.verdicts import MAX_NEW_TOKENS
from cachemend.flows.results_folder import check_writable
from cachemend.flows.routing_config import ResponseRoutingConfig
from cachemend.flows.routing_log import RoutingLog
from cachemend.flows.routing_pools import STRESS, Pool, build_pools, stress_pool
from cachemend.flows.routing_summary import RoutingSummary, print_routing_summary, summarise_routing
from cachemend.flows.running import SomeFailed, cores, run_name
from cachemend.flows.settings import Settings, load_settings
from cachemend.tasks.cluster import connected
from cachemend.tasks.routing.analysing import Measurement, Plan, analyse_routing
from cachemend.tasks.routing.identity import EXPERIMENT, RouteIdentity
from cachemend.tasks.routing.probing import probe_pairs
from cachemend.tasks.routing.scoring import score_pairs
from cachemend.tasks.routing.staffing import RouteStaff, VerifierChoice, staff
from cachemend.tasks.run_shards import Written
from cachemend.tasks.sizing import pool_size, weight_bytes

SCORE_RULE = "exact VALID"


@flow(name=EXPERIMENT)
def response_routing(
    config: ResponseRoutingConfig, results: str, limit: int | None = None, address: str | None = None
) -> RoutingSummary:
    """Measure the pairs of every pool, analyse them, and print the safety-utility table.

    Args:
        config: the settings.
        results: results folder.
        limit: only the first pairs of every pool; None for all.
        address: a running Ray cluster; None for one of our own.

    Raises:
        InputError: bad settings, data that is missing or faulty, a model that cannot be loaded, a folder that cannot
            be written.
        SomeFailed: in a scheduled run, some pairs have no verdict.
    """
    name, settings = run_name(), load_settings()
    folder = Path(results).absolute()
    config.check_model()
    check_writable(folder)
    built = build_pools(config.pools, settings.data, folder, limit)
    pools, notes = list(built.pools), list(built.notes)
    plan = Plan(n_splits=config.splits, seed=config.seed, own_guards=config.own_guards)
    done: list[tuple[RoutingLog, Written]] = []
    measured: list[Measurement] = []
    try:
        with _staffed(config, settings, folder, address) as employed:
            if _wants_stress(config, settings):
                encode = employed.instruments.encode
                pools.append(stress_pool(settings.data, folder, encode, employed.encoder, limit))
            for pool in pools:
                identity = _identity(config, pool, employed)
                log = RoutingLog.of(folder, name, identity, pool, config)
                log.write("running")
                done.append((log, Written(0, 0)))
                instruments, texts = employed.instruments, config.store_text
                written = score_pairs(folder, pool.file, identity, instruments, run_id=log.run_id, store_text=texts)
                done[-1] = log, written
                if pool.name != STRESS:  # its pairs have one label
                    probe_pairs(folder, pool.file, identity, run_id=log.run_id)
                measured.append(Measurement(identity, [pair.digest for pair in pool.cohort.cases]))
        analyse_routing(folder, measured, plan, run_id=name.run_id)
    except BaseException:
        for log, _ in done:
            log.write("failed")
        raise
    for log, written in done:
        log.write("done", written)
    n_written = sum(written.n_records for _, written in done)
    summary = summarise_routing(folder, name.run_id, measured, plan, n_written=n_written, notes=notes)
    print_routing_summary(summary)
    if deployment.id and summary.failures:
        raise SomeFailed(summary.failure_line)
    return summary


def _identity(config: ResponseRoutingConfig, pool: Pool, employed: RouteStaff) -> RouteIdentity:
    lexicon = load_lexicon()
    return RouteIdentity(
        cohort_digest=pool.cohort.digest,
        pool=pool.name,
        encoder=employed.encoder,
        verifier=employed.verifier,
        verifier_model=_verifier_name(config),
        language_model=employed.language_model,
        lexicon_digest=lexicon.digest,
        lexicon_version=lexicon.version,
    )


def _verifier_name(config: ResponseRoutingConfig) -> str:
    named = {"local": config.model, "endpoint": config.endpoint_model, "recorded": config.verdicts}
    return named.get(config.verifier) or config.verifier


def _wants_stress(config: ResponseRoutingConfig, settings: Settings) -> bool:
    if config.pools is not None:
        return STRESS in config.pools
    return any(settings.data.glob("cacheattack/query_pairs*.json"))


@contextmanager
def _staffed(
    config: ResponseRoutingConfig, settings: Settings, results: Path, address: str | None
) -> Iterator[RouteStaff]:
    """Connect to Ray and start the actors that the settings ask for."""
    workers, threads = config.workers or settings.workers, config.threads or settings.threads
    spec = config.worker(max_new_tokens=MAX_NEW_TOKENS, score_rule=SCORE_RULE) if config.needs_model else None
    choice = VerifierChoice(
        config.verifier,
        endpoint=config.server() if config.verifier == "endpoint" else None,
        key=settings.verifier_key,
        recorded=Path(config.verdicts) if config.verdicts is not None else None,
    )
    with connected(address, cores(workers, threads)) as have:
        size = None
        if spec is not None:
            size = pool_size(have, spec, workers=workers, threads=threads, model_bytes=weight_bytes(spec))
        language = config.language_baselines
        with staff(results, choice, config.encoder, spec, size, language_baselines=language) as employed:
            yield employed
