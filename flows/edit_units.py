"""One study on one cohort: what is missing of it, and running that."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from cachemend.datasets.cohort import Cohort, read_cohort
from cachemend.datasets.edit_spec import EditRoster
from cachemend.flows.edit_cohorts import Occasion, Prepared, unit_run_id
from cachemend.flows.edit_config import OPERATOR_ITEMS
from cachemend.flows.running import Staff, Tally, code_state, compute, logged
from cachemend.repair_core import ENGINE_VERSION
from cachemend.repair_core.errors import InputError
from cachemend.tasks.edit_arms import EDIT_REFERENCES, EditArm
from cachemend.tasks.edit_choosing import ORACLES
from cachemend.tasks.edit_cost_work import CostIdentity, device_name
from cachemend.tasks.edit_retained import recorded_positions, retention
from cachemend.tasks.edit_sequence_work import SequenceIdentity
from cachemend.tasks.edit_work import EXPERIMENT, EditIdentity, retention_rule
from cachemend.tasks.identity import SharedIdentity
from cachemend.tasks.run_rows import RunLog
from cachemend.tasks.work import Work, get_work

HEADLINE = ("derived", 0)


@dataclass(frozen=True, kw_only=True)
class Unit:
    """A study on a cohort, ready to run.

    Attributes:
        occasion: the flow run.
        staff: its workers.
        study: the study.
        work: its kind of work.
        cohort_file, cohort: the cohort, and where it is.
        identity: what its rows share.
    """

    occasion: Occasion
    staff: Staff
    study: str
    work: Work
    cohort_file: Path
    cohort: Cohort
    identity: Any

    @property
    def run_id(self) -> str:
        """The run of this study on this cohort."""
        return unit_run_id(self.occasion, self.study, self.cohort.name)

    @cached_property
    def cases(self) -> tuple[Any, ...]:
        """The cases it covers."""
        return self.cohort.prefix(self.occasion.limit).cases

    def log(self, n_arms: int) -> RunLog:
        """The run's rows."""
        occasion = self.occasion
        settings = {
            **occasion.config.model_dump(mode="json"),
            "study": self.study,
            "cases": self.cohort.name,
            "workers": self.staff.size.workers,
            "threads": self.staff.size.threads,
            "limit": occasion.limit,
            "address": occasion.address,
            "nominal_time": occasion.nominal.isoformat(),
        }
        return RunLog(
            work=self.work,
            results=occasion.results,
            run_id=self.run_id,
            identity=self.identity,
            model=self.staff.model,
            manifest=self.cohort.manifest,
            settings=settings,
            n_cases=len(self.cases),
            n_arms=n_arms,
            git=code_state(),
        )


def make_unit(occasion: Occasion, staff: Staff, prepared: Prepared) -> Unit:
    """Read the cohort of a study and say what its rows share."""
    study, config = prepared.study, occasion.config
    work = get_work(prepared.work_name)
    cohort = read_cohort(prepared.cohort_file, work.case_type)
    shared = {
        "experiment": EXPERIMENT,
        "cohort_digest": cohort.digest,
        "model": config.model,
        "model_fingerprint": staff.model.fingerprint,
        "dtype": staff.model.dtype,
        "executor": config.executor,
        "attention": config.attention,
        "decoding": cohort.manifest["decoding"],
        "score_rule": cohort.manifest["score_rule"],
        "engine_version": ENGINE_VERSION,
    }
    identity: SharedIdentity
    if study == "sequences":
        identity = SequenceIdentity(**shared)
    elif study == "cost":
        identity = CostIdentity(**shared, device=device_name(staff.model.hardware))
    else:
        identity = EditIdentity(**{**shared, "score_rule": retention_rule(shared["score_rule"], config.min_gap)})
    return Unit(
        occasion=occasion,
        staff=staff,
        study=study,
        work=work,
        cohort_file=prepared.cohort_file,
        cohort=cohort,
        identity=identity,
    )


def run_main(unit: Unit, roster: EditRoster) -> Tally:
    """Run every arm of the candidates until enough of them are retained in every cell, or there are no more."""
    arms = unit.occasion.config.arms()
    log = unit.log(len(arms))
    with logged(log) as tally:
        # Every cell keeps to the expansion rule by itself; the headline cell comes first.
        for cell in sorted(dict.fromkeys(map(_cell, unit.cases)), key=lambda cell: cell != HEADLINE):
            for indices in _pools(unit, roster, cell):
                # A worker gives up the other arms of an item that is not retained: once known, they are not missing.
                dropped = retention(unit.occasion.results, unit.identity).dropped
                wanted = {index: _main_arms(unit, index, arms, dropped) for index in indices}
                compute(log, unit.staff, unit.cohort_file, wanted, tally)
    return tally


def _main_arms(unit: Unit, index: int, arms: Sequence[EditArm], dropped: frozenset[str]) -> Sequence[EditArm]:
    """The arms of a case: oracles at distance 0 only, curves over K of derived edits there, the headline cell."""
    case, primary = unit.cases[index], unit.occasion.config.primary_k
    if case.condition == "irrelevant" or case.digest in dropped:
        return EDIT_REFERENCES
    if _cell(case) == HEADLINE:
        return arms
    # The panel of transplants compares both conditions at distance 0, oracles included.
    return tuple(arm for arm in arms if arm.k in (None, primary) and (case.distance == 0 or arm.policy not in ORACLES))


def _pools(unit: Unit, roster: EditRoster, cell: tuple[str, int]) -> Iterable[list[int]]:
    """The cases of a cell that each pool of the expansion rule adds, until enough of them are retained."""
    items = {item: number for number, item in enumerate(dict.fromkeys(case.item_id for case in unit.cases))}
    before = enough = 0
    for size in roster.pools:
        places = [
            (i, case)
            for i, case in enumerate(unit.cases)
            if _cell(case) == cell and before <= items[case.item_id] < size
        ]
        yield [i for i, _ in places]
        kept = retention(unit.occasion.results, unit.identity).retained
        # An irrelevant edit leaves nothing to recover; every candidate counts.
        enough += sum(case.digest in kept or case.condition == "irrelevant" for _, case in places)
        before = size
        if enough >= roster.wanted(*cell) or size >= len(items):
            return


def _cell(case: Any) -> tuple[str, int]:
    return case.condition, case.distance


def run_severity(unit: Unit) -> Tally:
    """Run the references and edit-local at the primary K on every candidate, whether it would be retained or not."""
    repair = EditArm(policy="edit-local", k=unit.occasion.config.primary_k, unconditional=True)
    arms = (*EDIT_REFERENCES, repair)
    log = unit.log(len(arms))
    with logged(log) as tally:
        compute(log, unit.staff, unit.cohort_file, dict.fromkeys(range(len(unit.cases)), arms), tally)
    return tally


def run_operators(unit: Unit) -> Tally | None:
    """Transplant the position sets that main recorded, on the first retained items of each condition at distance 0.

    Returns:
        None where main recorded nothing to replay.
    """
    arms = unit.occasion.config.operator_arms()
    recorded = recorded_positions(unit.occasion.results, unit.identity)
    digests = {digest for digest, _, _ in recorded}
    replayed: dict[int, tuple[EditArm, ...]] = {}
    taken: dict[str, int] = {}
    for index, case in enumerate(unit.cases):
        if case.digest not in digests or case.distance or taken.get(case.condition, 0) >= OPERATOR_ITEMS:
            continue
        taken[case.condition] = taken.get(case.condition, 0) + 1
        known = ((arm, recorded.get((case.digest, arm.policy, arm.k))) for arm in arms)
        replayed[index] = tuple(
            EditArm(policy=arm.policy, k=arm.k, operator="transplant", recorded=positions)
            for arm, positions in known
            if positions is not None
        )
    if not replayed:
        return None
    log = unit.log(len(arms))
    with logged(log) as tally:
        compute(log, unit.staff, unit.cohort_file, replayed, tally)
    return tally


def run_sequences(unit: Unit) -> Tally:
    """Run every way to repair several edits."""
    config = unit.occasion.config
    n_arms = max(len(config.sequence_arms(len(case.changes))) for case in unit.cases)
    log = unit.log(n_arms)
    wanted = {index: config.sequence_arms(len(case.changes)) for index, case in enumerate(unit.cases)}
    with logged(log) as tally:
        compute(log, unit.staff, unit.cohort_file, wanted, tally)
    return tally


def run_cost(unit: Unit) -> Tally:
    """Time refresh and re-prefill at every length."""
    log = unit.log(1)
    arms = (unit.occasion.config.cost_arm(),)
    with logged(log) as tally:
        compute(log, unit.staff, unit.cohort_file, dict.fromkeys(range(len(unit.cases)), arms), tally)
    return tally


def nothing_to_replay(unit: Unit) -> InputError:
    """Why the operators study of a cohort has nothing to do."""
    return InputError(
        f"study 'operators' replays what study 'main' recorded, and {unit.occasion.results} holds no retained item of "
        f"cases {unit.cohort.name!r}; run study=main first"
    )
