"""A kind of work: the cases it takes, what runs on one, and the table its rows go to.

Planning, workers and writing are the same for all kinds; what differs between experiments stands here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

from transformers import PreTrainedTokenizerBase

from cachemend.datasets.cohort import Cohort
from cachemend.repair_core import LoadedModel
from cachemend.repair_core.errors import InputError, nearest
from cachemend.tasks.worker_spec import WorkerSpec

_PLACES = {
    "erasing-niah": "cachemend.tasks.niah_work:WORK",
    "edit-repair": "cachemend.tasks.edit_work:WORK",
    "edit-sequences": "cachemend.tasks.edit_sequence_work:WORK",
    "edit-cost": "cachemend.tasks.edit_cost_work:WORK",
    "execution-refresh": "cachemend.tasks.execution.work:REFRESH_WORK",
    "execution-attention": "cachemend.tasks.execution.work:ATTENTION_WORK",
    "execution-recovery": "cachemend.tasks.execution.recovery_work:WORK",
    "numerical-repeats": "cachemend.tasks.numerics.works:REPEATS",
    "executor-probes": "cachemend.tasks.numerics.works:PROBES",
    "residual-bound": "cachemend.tasks.numerics.works:BOUND",
}


class Measured(NamedTuple):
    """One row of an arm: what was measured, as columns of the work's table."""

    arm: Any
    row: dict[str, Any]


class Place(NamedTuple):
    """Where a case runs: the loaded models and how to run."""

    loaded: LoadedModel
    auxiliary: LoadedModel | None
    spec: WorkerSpec


@dataclass(frozen=True, kw_only=True)
class Work:
    """One kind of work. Its functions are plain functions of a module: workers find them by the work's name.

    Attributes:
        name: as in `get_work`.
        experiment: the experiment its rows belong to.
        case_type: type of the cohort's cases.
        table: where its rows go.
        timed_stages: what its seconds are of.
        seeds: what is drawn, and by what, beside the cases.
        build: the cohort of a roster for a tokenizer; where models are compared, for a list of other ones too.
        tokens: how many tokens a case needs of the model, answer excluded.
        facts: the columns of a case that every row of it repeats.
        run: the rows of the arms of one case; an arm that the case does not need has none. Failures are rows.
        failed: the rows of an arm that gave no answer, from its outcome and reason.
        cells: the key columns that tell the rows of one arm apart; one empty mapping where an arm has one row.
        case_table: where its cases are described; None for nowhere.
        case_row: the columns of one case there, texts only if asked for; None without a table.
    """

    name: str
    experiment: str
    case_type: type
    table: str
    timed_stages: tuple[str, ...]
    seeds: dict[str, str]
    build: Callable[..., Cohort]
    tokens: Callable[[Any], int]
    facts: Callable[[Any], dict[str, Any]]
    run: Callable[[Place, Any, Sequence[Any]], list[Measured]]
    failed: Callable[[Any, Any, str, str], list[Measured]]
    cells: Callable[[Any, Any], Sequence[dict[str, Any]]]
    case_table: str | None = None
    case_row: Callable[[PreTrainedTokenizerBase, Any, bool], dict[str, Any]] | None = None


def get_work(name: str) -> Work:
    """Return the work called `name`.

    Raises:
        InputError: there is none.
    """
    if name not in _PLACES:
        raise InputError(f"work {name!r} is unknown; {nearest(name, _PLACES)}")
    module, _, attribute = _PLACES[name].partition(":")
    work: Work = getattr(import_module(module), attribute)
    return work


def one_row(case: Any, arm: Any) -> Sequence[dict[str, Any]]:  # noqa: ARG001
    """Every arm has one row."""
    return ({},)
