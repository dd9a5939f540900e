"""What a run still has to compute: one shard per case, holding the arms without a finished record."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from cachemend.datasets.cohort import read_cohort
from cachemend.datasets.niah_case import NiahCase
from cachemend.repair_core import Arm
from cachemend.tasks.records import RunIdentity
from cachemend.tasks.stage import stage
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
    arms: tuple[Arm, ...]


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
    results: Path, cohort_file: Path, limit: int | None, arms: Sequence[Arm], identity: RunIdentity
) -> Plan:
    """Set corrupt parts aside and list what is missing.

    Args:
        results: results folder.
        cohort_file: the cohort, as `write_cohort` left it.
        limit: take only the first cases; None for all.
        arms: the arms every case should have.
        identity: what the run's records share.
    """
    corrupt = aside(results)
    finished = finished_keys(results)
    shards = []
    cases = read_cohort(cohort_file, NiahCase).prefix(limit).cases
    for index, case in enumerate(cases):
        missing = tuple(arm for arm in arms if identity.key(case.digest, arm) not in finished)
        if missing:
            shards.append(Shard(case_index=index, arms=missing))
    return Plan(tuple(shards), corrupt)


def aside(results: Path) -> tuple[str, ...]:
    """Rename corrupt parts, so that their content is computed again; return one line for each."""
    lines = []
    for name in TABLES:
        for part in scan(results, name, deep=True).corrupt:
            kept = set_aside(part.path)
            lines.append(f"corrupt part {part.path}: {part.reason}; kept as {kept.name}, its rows are computed again")
    return tuple(lines)
