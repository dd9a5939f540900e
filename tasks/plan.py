"""What a run still has to compute: one shard per case, holding the arms without a finished record."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from cachemend.datasets.cohort import read_cohort
from cachemend.tasks.identity import Identity
from cachemend.tasks.records import row_key
from cachemend.tasks.stage import stage
from cachemend.tasks.work import Work, get_work
from cachemend.warehouse.parts import finished_keys, scan, set_aside
from cachemend.warehouse.schemas import TABLES


@dataclass(frozen=True, kw_only=True)
class Shard:
    """The work that is done and written as one: a case and its missing arms.

    Attributes:
        case_index: place of the case in its cohort.
        arms: the arms to run.
    """

    case_index: int
    arms: tuple[Any, ...]


class Plan(NamedTuple):
    """The shards to run, and what was found on the way.

    Attributes:
        shards: in the cohort's order.
        corrupt: one line for each part that was set aside.
    """

    shards: tuple[Shard, ...]
    corrupt: tuple[str, ...]


@stage(name="plan")
def plan_shards(
    work_name: str,
    results: Path,
    cohort_file: Path,
    indices: Iterable[int],
    arms_of: Callable[[int], Sequence[Any]],
    identity: Identity,
) -> Plan:
    """Set corrupt parts aside and list what is missing.

    Args:
        work_name: the kind of work.
        results: results folder.
        cohort_file: the cohort, as `write_cohort` left it.
        indices: the cases to cover, by their place in the cohort.
        arms_of: the arms that the case at a place should have.
        identity: what the run's records share.
    """
    work = get_work(work_name)
    corrupt = aside(results)
    finished = finished_keys(results, work.table)
    cases = read_cohort(cohort_file, work.case_type).cases
    shards = []
    for index in indices:
        missing = tuple(arm for arm in arms_of(index) if not arm_keys(work, identity, cases[index], arm) <= finished)
        if missing:
            shards.append(Shard(case_index=index, arms=missing))
    return Plan(tuple(shards), corrupt)


def arm_keys(work: Work, identity: Identity, case: Any, arm: Any) -> set[str]:
    """The keys of the rows that an arm of a case has once it is finished."""
    shared = {**work.facts(case), **identity.of(case.digest, arm)}
    return {row_key(work.table, {**shared, **cell}) for cell in work.cells(case, arm)}


def aside(results: Path) -> tuple[str, ...]:
    """Rename corrupt parts, so that their content is computed again; return one line for each."""
    lines = []
    for name in TABLES:
        for part in scan(results, name, deep=True).corrupt:
            kept = set_aside(part.path)
            lines.append(f"corrupt part {part.path}: {part.reason}; kept as {kept.name}, its rows are computed again")
    return tuple(lines)
