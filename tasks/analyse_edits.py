"""The stage after an edit-repair run: from its records to summaries, contrasts, triggers and the decision table."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedTokenizerBase

from cachemend.repair_core.decision_table import DecisionTable
from cachemend.repair_core.errors import InputError
from cachemend.repair_core.features import EditFeatures
from cachemend.repair_core.models import load_tokenizer
from cachemend.repair_core.whole_file import write_whole
from cachemend.tasks.analyse_contrasts import contrast_rows
from cachemend.tasks.analyse_gate import failure_predictor
from cachemend.tasks.analyse_recovery import recovery_rows
from cachemend.tasks.analyse_table import decision_table, derived, derived_rows, evaluated_rows, observations
from cachemend.tasks.analyse_triggers import trigger_rows
from cachemend.tasks.edit_observations import Observed, features_of
from cachemend.tasks.edit_retained import cohorts_beside
from cachemend.tasks.edit_work import EditIdentity
from cachemend.tasks.stage import stage
from cachemend.tasks.worker_spec import WorkerSpec
from cachemend.warehouse.parts import write_part

POLICY_FILE = "edit-policy.json"


@dataclass(frozen=True, kw_only=True)
class Analysed:
    """A cohort to analyse: its file, and what its records share."""

    cohort_file: Path
    identity: EditIdentity


@stage(name="analyse")
def analyse_edits(
    results: Path, cohorts: Sequence[Analysed], spec: WorkerSpec, *, run_id: str, primary_k: int
) -> Path | None:
    """Analyse every cohort, and the dev one together with the held-out ones; write the analysis tables.

    Gates and the decision table are derived on dev items and tested on held-out ones. Where a run had only some of
    them, the cohorts that earlier runs of the same kind left in the folder are taken as well, so that no evaluation
    stays behind its derivation or its records. The same records give the same rows, which are then stored once.

    Args:
        results: results folder.
        cohorts: what was run.
        spec: says whose tokenizer reads the texts.
        run_id: the run that asks.
        primary_k: K of tables and tests.

    Returns:
        The decision table's file; None without dev items.
    """
    tokenizer = load_tokenizer(spec.model, spec.revision, spec.trust_remote_code)
    read = [Observed.read(results, each.cohort_file, each.identity) for each in cohorts]
    given = [observed for observed in read if observed.rows]
    writer = _Writer(results, run_id)
    for observed in given:
        writer.write("edit_recovery_rows", (observed, recovery_rows(observed)))
        writer.write("edit_contrast_rows", (observed, contrast_rows(observed, primary_k)))
    every = [*given, *_stored_beside(results, cohorts)]
    fitted = (failure_predictor(observed) for observed in every if observed.split == "dev")
    predictor = next((found for found in fitted if found is not None), None)
    for observed in every:
        writer.write("edit_trigger_rows", (observed, trigger_rows(observed, primary_k, predictor)))
    return _table(writer, tokenizer, every, primary_k)


def _stored_beside(results: Path, cohorts: Sequence[Analysed]) -> list[Observed]:
    """Cohorts of earlier runs under the identities of these, the latest first, as far as their files are still there.

    Without its file a cohort's texts are unknown; nothing is derived from it or tested on it.
    """
    known = {each.identity.cohort_digest for each in cohorts}
    beside = {
        digest: replace(each.identity, cohort_digest=digest)
        for each in cohorts
        for digest in cohorts_beside(results, each.identity)
        if digest not in known
    }
    files = {digest: results / "cohorts" / f"{digest}.json" for digest in beside}
    return [Observed.read(results, files[d], identity) for d, identity in beside.items() if files[d].is_file()]


def _table(
    writer: "_Writer", tokenizer: PreTrainedTokenizerBase, every: Sequence[Observed], primary_k: int
) -> Path | None:
    """Derive the table from the first dev cohort that holds retained items, and test it on the held-out ones."""
    measured = [(observed, observations(observed, _features(tokenizer, observed), primary_k)) for observed in every]
    dev = next(((o, found) for o, found in measured if o.split == "dev" and found is not None), None)
    if dev is None:
        return None
    observed, found = dev
    choices = derived(found)
    tested = [
        (other, evaluated_rows(choices, other, held_out))
        for other, held_out in measured
        if other.split == "held-out" and held_out is not None
    ]
    # One part, so that a derivation and its evaluations bear one date: the view shows no evaluation of an older table.
    writer.write("edit_table_rows", (observed, derived_rows(choices, observed, found)), *tested)
    return _export(writer.results / POLICY_FILE, decision_table(choices, observed, len(set(found.items))))


def _export(file: Path, table: DecisionTable) -> Path:
    """Write the table whole or not at all."""
    try:
        write_whole(file, table.to_json().encode())
    except OSError as error:
        raise InputError(f"decision table {file}: cannot write ({error.strerror})") from error
    return file


def _features(tokenizer: PreTrainedTokenizerBase, observed: Observed) -> dict[str, EditFeatures]:
    """What is known of the retained cases before their repair, by digest; only these are asked for a decision."""
    digests = {row["case_digest"] for row in observed.ok if row["retained"]}
    model = _NoModel()
    return {digest: features_of(tokenizer, model, observed.cases[digest]) for digest in sorted(digests)}


class _NoModel(nn.Module):
    """Stands for the model where only texts are read: it has a device, and runs nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(1, 1, device=torch.device("cpu"))

    def get_input_embeddings(self) -> nn.Module:
        """On the CPU."""
        return self.embedding


@dataclass(frozen=True)
class _Writer:
    """Writes analysis rows with their identity."""

    results: Path
    run_id: str

    def write(self, table: str, *found: tuple[Observed, Sequence[dict[str, Any]]]) -> None:
        """Write the rows of some cohorts as one part."""
        written = {"run_id": self.run_id, "recorded_at": datetime.now(UTC)}
        every = [
            {**asdict(observed.identity), "split": observed.split, **written, **row}
            for observed, rows in found
            for row in rows
        ]
        if every:
            write_part(self.results, table, every)
