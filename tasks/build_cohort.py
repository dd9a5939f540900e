"""The stage that builds the cohort and writes it down: one file for the workers' driver, rows for SQL."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from transformers import PreTrainedTokenizerBase

from cachemend.datasets.cohort import Cohort, write_cohort
from cachemend.datasets.niah import NiahRoster, build_niah
from cachemend.datasets.niah_case import NiahCase
from cachemend.repair_core.errors import InputError
from cachemend.repair_core.models import context_limit, load_tokenizer
from cachemend.repair_core.text import token_text
from cachemend.tasks.records import case_facts
from cachemend.tasks.stage import stage
from cachemend.tasks.worker_spec import WorkerSpec
from cachemend.warehouse.parts import write_part


@stage(name="build cohort")
def build_cohort(
    experiment: str,
    roster: NiahRoster,
    spec: WorkerSpec,
    *,
    results: Path,
    run_id: str,
    limit: int | None,
    store_text: bool,
) -> Path:
    """Build the roster for the model's tokenizer; write RESULTS/cohorts/DIGEST.json and the rows of `cases`.

    The file always holds the whole cohort: a limited run and a full one share it.

    Returns:
        The cohort's file, absolute.

    Raises:
        InputError: a case that cannot be built, or one that the model cannot hold; nothing is written.
    """
    tokenizer = load_tokenizer(spec.model, spec.revision, spec.trust_remote_code)
    cohort = build_niah(tokenizer, roster)
    chosen = cohort.prefix(limit).cases
    _check_fits(chosen, spec)
    file = results.absolute() / "cohorts" / f"{cohort.digest}.json"
    try:
        write_cohort(cohort, file)
    except OSError as error:
        raise InputError(f"results folder {results}: cannot write ({error.strerror})") from error
    write_part(results, "cases", _rows(tokenizer, experiment, cohort, chosen, run_id, store_text))
    return file


def _check_fits(cases: Sequence[NiahCase], spec: WorkerSpec) -> None:
    most = context_limit(spec.model, spec.revision, spec.trust_remote_code)
    for case in cases:
        needed = len(case.deletion.original_ids) + len(case.query_ids) + spec.max_new_tokens
        if most is not None and needed > most:
            raise InputError(
                f"case {case.case_id} needs {needed} tokens and model {spec.model!r} holds {most}; "
                "choose shorter ones with --set lengths=..."
            )


def _rows(
    tokenizer: PreTrainedTokenizerBase,
    experiment: str,
    cohort: Cohort,
    cases: Sequence[NiahCase],
    run_id: str,
    store_text: bool,
) -> list[dict[str, object]]:
    now = datetime.now(UTC)
    return [
        {
            **case_facts(case),
            "experiment": experiment,
            "cohort": cohort.name,
            "cohort_digest": cohort.digest,
            "gold": list(case.gold),
            "context_text": case.context_text if store_text else None,
            "deleted_text": case.deleted_text if store_text else None,
            "query_text": case.query_text if store_text else None,
            "token_stops": token_stops(tokenizer, case),
            "run_id": run_id,
            "recorded_at": now,
        }
        for case in cases
    ]


def token_stops(tokenizer: PreTrainedTokenizerBase, case: NiahCase) -> list[int] | None:
    """Return where each token of the edited context ends in its text, characters.

    A token without text of its own there, such as an opening one that the template does not write, ends where the
    text before it does.

    Returns:
        One stop per token; None for a tokenizer that does not give the text back.
    """
    decoded = token_text(tokenizer, case.deletion.edited_ids)
    opening = len(decoded.text) - len(case.context_text)
    if opening < 0 or decoded.text[opening:] != case.context_text:
        return None
    return [max(0, span.stop - opening) for span in decoded.spans]
