"""The stage that builds the cohort and writes it down: one file for the workers' driver, rows for SQL."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cachemend.datasets.cohort import write_cohort
from cachemend.repair_core.errors import InputError
from cachemend.repair_core.models import context_limit, load_tokenizer
from cachemend.tasks.stage import stage
from cachemend.tasks.work import Work, get_work
from cachemend.tasks.worker_spec import WorkerSpec
from cachemend.warehouse.parts import write_part


@stage(name="build cohort")
def build_cohort(
    work_name: str,
    roster: Any,
    spec: WorkerSpec,
    *,
    results: Path,
    run_id: str,
    limit: int | None,
    store_text: bool,
) -> Path:
    """Build the roster for the model's tokenizer; write RESULTS/cohorts/DIGEST.json and the rows of its cases.

    The file always holds the whole cohort: a limited run and a full one share it.

    Returns:
        The cohort's file, absolute.

    Raises:
        InputError: a case that cannot be built, or one that the model cannot hold; nothing is written.
    """
    work = get_work(work_name)
    tokenizer = load_tokenizer(spec.model, spec.revision, spec.trust_remote_code)
    cohort = work.build(tokenizer, roster)
    chosen = cohort.prefix(limit).cases
    _check_fits(work, chosen, spec)
    file = results.absolute() / "cohorts" / f"{cohort.digest}.json"
    try:
        write_cohort(cohort, file)
    except OSError as error:
        raise InputError(f"results folder {results}: cannot write ({error.strerror})") from error
    if work.case_table is not None:
        shared = {
            "experiment": work.experiment,
            "cohort": cohort.name,
            "cohort_digest": cohort.digest,
            "run_id": run_id,
            "recorded_at": datetime.now(UTC),
        }
        rows = [{**work.case_row(tokenizer, case, store_text), **shared} for case in chosen]
        write_part(results, work.case_table, rows)
    return file


def _check_fits(work: Work, cases: Sequence[Any], spec: WorkerSpec) -> None:
    most = context_limit(spec.model, spec.revision, spec.trust_remote_code)
    for case in cases:
        needed = work.tokens(case) + spec.max_new_tokens
        if most is not None and needed > most:
            raise InputError(
                f"case {case.case_id} needs {needed} tokens and model {spec.model!r} holds {most}; "
                "choose shorter ones with --set lengths=..."
            )
