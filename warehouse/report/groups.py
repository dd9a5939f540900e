"""One section of the page: everything about one group of rows, ready for the template."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from cachemend.warehouse.published import EXPERIMENT
from cachemend.warehouse.report.failures import Failures, failures
from cachemend.warehouse.report.figure_frame import Figure
from cachemend.warehouse.report.figures import figures
from cachemend.warehouse.report.finding import Tile, finding, statement, tiles
from cachemend.warehouse.report.labels import arm_order, experiment_label
from cachemend.warehouse.report.lengths import LengthTable, length_table
from cachemend.warehouse.report.orderings import Ordering, orderings
from cachemend.warehouse.report.paired import Comparison, paired_table
from cachemend.warehouse.report.provenance import Run, cohort_sizes
from cachemend.warehouse.report.published import PublishedTable
from cachemend.warehouse.report.rows import STAGES, Identity, Row
from cachemend.warehouse.report.strata import HEADLINE, Stratum, split
from cachemend.warehouse.report.summaries import ArmSummary, InvariantCount, invariants, summarise
from cachemend.warehouse.report.sweep import SweepTable, sweep_table
from cachemend.warehouse.report.texts import Texts
from cachemend.warehouse.report.viewer import Viewer, viewer


class StratumView(NamedTuple):
    """A stratum's tables."""

    stratum: Stratum
    sweep: SweepTable
    arms: list[ArmSummary]
    lengths: LengthTable
    paired: list[Comparison]

    @property
    def stages(self) -> list[str]:
        """Components that were timed for any arm."""
        return [stage for stage in STAGES if any(stage in arm.seconds for arm in self.arms)]


class GroupView(NamedTuple):
    """A group: `main` is the stratum of the finding, `controls` the others, shown apart."""

    key: str
    identity: Identity
    cohort: str | None
    statement: str
    finding: str
    tiles: list[Tile]
    main: StratumView
    controls: list[StratumView]
    figures: list[Figure]
    published: Sequence[PublishedTable]
    checks_paper: bool
    orderings: list[Ordering]
    viewer: Viewer
    failures: Failures
    invariants: list[InvariantCount]
    run_ids: list[str]
    latest: datetime
    template: str = "group.html.jinja"

    @property
    def title(self) -> str:
        """A short name for the table of contents."""
        parts = (self.identity.model, self.identity.dtype, f"{self.identity.executor} executor")
        return f"{experiment_label(self.identity.experiment)}: {', '.join(parts)}"

    @property
    def contents(self) -> list[tuple[str, str]]:
        """Anchors of the section's parts, with their names."""
        parts = [("sweep", "Sweep"), ("figures", "Figures"), ("paired", "Paired tests")]
        if self.checks_paper:
            parts.append(("orderings", "Paper's orderings"))
        parts += [("lengths", "By length"), ("cases", "Case by case"), ("failures", "Failures")]
        return [(f"{self.key}-{anchor}", name) for anchor, name in parts]

    @property
    def verdicts(self) -> str:
        """How many of the paper's orderings came out how."""
        counts = Counter(found.verdict for found in self.orderings)
        return ", ".join(f"{verdict}: {counts[verdict]}" for verdict in sorted(counts))

    @property
    def has_headline(self) -> bool:
        """Whether the main stratum is the one that needs repair."""
        return self.main.stratum.name in (HEADLINE, None)


def group_view(
    number: int,
    identity: Identity,
    rows: Sequence[Row],
    runs: Sequence[Run],
    cohorts: dict[str, str],
    published: Sequence[PublishedTable],
    texts: Texts,
    room: int,
) -> GroupView:
    """Compute a group's section; `room` is what its case viewer may take, in characters."""
    strata = split(rows, cohort_sizes(runs, identity.cohort_digest))
    main, *controls = [_view(stratum) for stratum in strata]
    named = {run.cohort_digest: run.cohort for run in runs if run.cohort}
    checks_paper = identity.experiment == EXPERIMENT and identity.repairs
    cohort = named.get(identity.cohort_digest) or cohorts.get(identity.cohort_digest)
    return GroupView(
        key=f"g{number}",
        identity=identity,
        cohort=cohort,
        statement=statement(identity, cohort, strata),
        finding=finding(main.stratum, identity.repairs),
        tiles=tiles(main.stratum, main.arms),
        main=main,
        controls=controls,
        figures=figures(main.stratum, main.arms),
        published=published,
        checks_paper=checks_paper,
        orderings=orderings(rows) if checks_paper else [],
        viewer=viewer(identity, rows, texts, room, main.stratum.headline_budget),
        failures=failures(rows, lambda row: arm_order(row.arm)),
        invariants=invariants(rows),
        run_ids=sorted({row.run_id for row in rows}),
        latest=max(row.recorded_at for row in rows),
    )


def _view(stratum: Stratum) -> StratumView:
    arms = summarise(stratum)
    sweep = sweep_table(stratum, {arm.arm: arm.em for arm in arms})
    return StratumView(stratum, sweep, arms, length_table(stratum), paired_table(stratum))
