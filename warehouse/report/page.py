"""Building and writing the page."""

from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from cachemend.calibration import intervals
from cachemend.repair_core.errors import InputError
from cachemend.repair_core.whole_file import write_whole
from cachemend.warehouse import edit_evidence, store
from cachemend.warehouse.report.edits.costs import CostView, read_costs
from cachemend.warehouse.report.edits.groups import EditGroupView, edit_group_view
from cachemend.warehouse.report.edits.names import policy_label
from cachemend.warehouse.report.edits.published import read_published_edits
from cachemend.warehouse.report.edits.rows import read_edit_groups
from cachemend.warehouse.report.execution import ExecutionTable, read_execution
from cachemend.warehouse.report.failures import SHOWN, corrupt_parts
from cachemend.warehouse.report.formats import FILTERS
from cachemend.warehouse.report.groups import GroupView, group_view
from cachemend.warehouse.report.labels import allocator_label, budget_label, experiment_label
from cachemend.warehouse.report.numerics import NumericsView, read_numerics
from cachemend.warehouse.report.orderings import ALPHA
from cachemend.warehouse.report.orderings_file import orderings_csv
from cachemend.warehouse.report.provenance import Run, read_cohort_names, read_runs
from cachemend.warehouse.report.published import chosen_model, read_published
from cachemend.warehouse.report.routing.filters import FILTERS as ROUTING_FILTERS
from cachemend.warehouse.report.routing.groups import RoutingGroupView, routing_group_view
from cachemend.warehouse.report.routing.published import read_paper
from cachemend.warehouse.report.routing.rows import read_routing_groups
from cachemend.warehouse.report.rows import read_groups
from cachemend.warehouse.report.texts import Texts
from cachemend.warehouse.report.variants import VariantsView, variant_views
from cachemend.warehouse.report.viewer import PAGE_BYTES
from cachemend.warehouse.scanning import CorruptPart

_TEMPLATES = Path(__file__).with_name("templates")


class _Content(NamedTuple):
    groups: list[GroupView | EditGroupView | RoutingGroupView]
    costs: list[CostView]
    numerics: NumericsView | None
    execution: list[ExecutionTable]
    variants: list[VariantsView]
    runs: list[Run]
    corrupt: list[CorruptPart]
    published_model: str | None


def write_report(results: Path, out: Path | None = None, published_model: str | None = None) -> Path:
    """Write the report of a results folder as one HTML page that needs no network.

    The page's table of the paper's orderings is also written as CSV beside it: NAME-orderings.csv for NAME.html, unless
    the folder holds nothing of the deletion study. A page in the results folder itself has the views beside it, see
    `store_views`; one elsewhere leaves that folder as it was.

    Safe while a run is writing: the page shows what was recorded when its records were read, and is replaced as a
    whole or not at all.

    Args:
        results: results folder.
        out: file to write; None for report.html in `results`.
        published_model: the published model to show first, by full name or last part ("Qwen3-8B").

    Returns:
        The page's path.

    Raises:
        InputError: no results, an unknown published model, or `out` cannot be written.
    """
    content = _content(results, published_model)
    target = results / "report.html" if out is None else out
    listed = target.with_name(f"{target.stem}-orderings.csv")
    page = (
        _environment()
        .get_template("page.html.jinja")
        .render(
            **content._asdict(),
            results=results.resolve(),
            written=datetime.now(UTC),
            plotlyjs=Markup(get_plotlyjs()),  # from the plotly package, not from the results
            shown_failures=SHOWN,
            replicates=intervals.REPLICATES,
            seed=intervals.SEED,
            alpha=ALPHA,
            orderings_file=listed.name,
            evidence=edit_evidence,
        )
    )
    _write(page, target)
    swept = [group for group in content.groups if isinstance(group, GroupView)]
    if swept:
        _write(orderings_csv((group.identity, group.orderings) for group in swept), listed)
    if out is None:
        store.store_views(results)
    return target


def _content(results: Path, published_model: str | None) -> _Content:
    rows, edits, costs = read_groups(results), read_edit_groups(results), read_costs(results)
    routed, numerics, execution = read_routing_groups(results), read_numerics(results), read_execution(results)
    if not any((rows, edits, costs, routed, numerics, execution)):
        raise InputError(
            f"results folder {results} holds no records; run an experiment first: cachemend run erasing-niah"
        )
    runs, cohorts = read_runs(results), read_cohort_names(results)
    published = {name: read_published(results, name) for name in {identity.experiment for identity in rows}}
    tables = [table for name in sorted(published) for table in published[name]]
    chosen = chosen_model(tables, published_model)
    texts, room = Texts(results), PAGE_BYTES // max(1, len(rows) + len(edits) + len(routed))
    groups: list[GroupView | EditGroupView | RoutingGroupView] = [
        group_view(number, identity, own, runs, cohorts, published[identity.experiment], texts, room)
        for number, (identity, own) in enumerate(rows.items())
    ]
    figures = read_published_edits(results) if edits else []
    groups += [
        edit_group_view(number, identity, own, runs, cohorts, figures, texts, room)
        for number, (identity, own) in enumerate(edits.items())
    ]
    papers = read_paper(results) if routed else {}
    groups += [
        routing_group_view(number, identity, own, runs, papers, room)
        for number, (identity, own) in enumerate(routed.items())
    ]
    groups.sort(key=lambda group: group.latest, reverse=True)
    variants = variant_views(
        rows, cohorts | {run.cohort_digest: run.cohort for run in runs if run.cohort_digest and run.cohort}, results
    )
    return _Content(groups, costs, numerics, execution, variants, runs, corrupt_parts(results), chosen)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(FILTERS)
    environment.filters.update(allocator=allocator_label, budget=budget_label, experiment=experiment_label)
    environment.filters.update(policy=policy_label)
    environment.filters.update(ROUTING_FILTERS)
    return environment


def _write(text: str, target: Path) -> None:
    try:
        if target.is_dir():
            raise InputError(f"report {target} is a folder; give the name of an HTML file")
        write_whole(target, text.encode())
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"report {target} cannot be written ({reason}); give a writable file") from error
