"""The stage that builds cohorts and writes them down: a file each for the workers' driver, rows for SQL."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from transformers import PreTrainedTokenizerBase

from cachemend.datasets.cohort import Cohort, write_cohort
from cachemend.repair_core.errors import InputError
from cachemend.repair_core.models import context_limit, load_tokenizer
from cachemend.tasks.stage import stage
from cachemend.tasks.work import Work, get_work
from cachemend.tasks.worker_spec import WorkerSpec
from cachemend.warehouse.parts import write_part


class Wanted(NamedTuple):
    """A cohort to build.

    Attributes:
        work_name: the kind of work it is for.
        roster: what that builds it from.
        run_id: the run that its cases are described for.
        others: models under whose tokenizers too every case must be buildable; for kinds of work that compare models.
    """

    work_name: str
    roster: Any
    run_id: str
    others: tuple[str, ...] = ()


@stage(name="build cohorts")
def build_cohorts(
    wanted: Sequence[Wanted], spec: WorkerSpec, *, results: Path, limit: int | None, store_text: bool
) -> list[Path]:
    """Build rosters for the model's tokenizer; write RESULTS/cohorts/DIGEST.json and the rows of their cases.

    All are built and checked before any is written. A file always holds the whole cohort: a limited run and a full
    one share it.

    Returns:
        The cohorts' files, absolute.

    Raises:
        InputError: a case that cannot be built, or one that the model cannot hold; nothing is written.
    """
    tokenizer = load_tokenizer(spec.model, spec.revision, spec.trust_remote_code)
    cohorts = [_build(tokenizer, each, spec, limit) for each in wanted]
    return [
        _write(tokenizer, cohort, each, results=results, limit=limit, store_text=store_text)
        for each, cohort in zip(wanted, cohorts, strict=True)
    ]


def _build(tokenizer: PreTrainedTokenizerBase, wanted: Wanted, spec: WorkerSpec, limit: int | None) -> Cohort:
    work = get_work(wanted.work_name)
    others = [_other_tokenizer(name, spec) for name in wanted.others]
    cohort = work.build(tokenizer, wanted.roster, *([others] if others else ()))
    _check_fits(work, cohort.prefix(limit).cases, spec)
    return cohort


def _other_tokenizer(name: str, spec: WorkerSpec) -> PreTrainedTokenizerBase:
    try:
        return load_tokenizer(name, None, spec.trust_remote_code)
    except InputError as error:
        raise InputError(f"tokenizers: {error}") from error


def _write(
    tokenizer: PreTrainedTokenizerBase,
    cohort: Cohort,
    wanted: Wanted,
    *,
    results: Path,
    limit: int | None,
    store_text: bool,
) -> Path:
    work = get_work(wanted.work_name)
    file = results.absolute() / "cohorts" / f"{cohort.digest}.json"
    try:
        write_cohort(cohort, file)
    except OSError as error:
        raise InputError(f"results folder {results}: cannot write ({error.strerror})") from error
    if work.case_table is not None and work.case_row is not None:
        shared = {
            "experiment": work.experiment,
            "cohort": cohort.name,
            "cohort_digest": cohort.digest,
            "run_id": wanted.run_id,
            "recorded_at": datetime.now(UTC),
        }
        rows = [{**work.case_row(tokenizer, case, store_text), **shared} for case in cohort.prefix(limit).cases]
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
