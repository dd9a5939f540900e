"""What can be run and with what: experiments, allocators, executors, rosters, models, data."""

from pathlib import Path

from rich.console import Console
from rich.table import Column, Table

from cachemend.flows.experiments import EXPERIMENTS


def print_listing() -> None:
    """Print everything a config key or argument can name."""
    from cachemend.datasets.edit_families import FAMILIES
    from cachemend.datasets.edit_rosters import EDIT_ROSTERS
    from cachemend.datasets.niah_rosters import ROSTERS
    from cachemend.repair_core.allocators import names
    from cachemend.repair_core.arms import REFERENCES
    from cachemend.repair_core.embedded import EMBEDDED
    from cachemend.repair_core.executors import EXECUTORS, EXPERIMENTAL
    from cachemend.repair_core.policies import DIAGNOSTICS, POLICIES
    from cachemend.repair_core.refreshing import ATTENTIONS
    from cachemend.repair_core.variants import VARIANTS

    print("experiments")
    for experiment in EXPERIMENTS.values():
        print(f"  {experiment.name}: {experiment.summary}")
    print("cases (rosters of erasing-niah)")
    for roster in ROSTERS.values():
        each = roster.cases_per_length + roster.control_per_length
        lengths = ", ".join(map(str, roster.lengths))
        print(f"  {roster.name}: {each * len(roster.lengths)} cases, {lengths} tokens, {roster.score_rule}")
    print("cases (rosters of edit-repair)")
    for edits in EDIT_ROSTERS.values():
        print(
            f"  {edits.name}: {edits.split}, {edits.n_items} items of up to {edits.max_candidates} candidates, "
            f"{edits.n_tokens} tokens, distances {', '.join(map(str, edits.distances))}"
        )
    print(f"references: {', '.join(REFERENCES)}")
    print(f"allocators: {', '.join(names())}")
    print(f"variants of sur: {', '.join(VARIANTS)}")
    print(f"policies: {', '.join(POLICIES)}")
    print(f"diagnostics: {', '.join(DIAGNOSTICS)}")
    print(f"families: {', '.join(FAMILIES)}")
    print(f"executor: {', '.join(EXECUTORS)}")
    print(f"executors, experimental, of execution-bench: {', '.join(EXPERIMENTAL)}")
    print(f"attention: {', '.join(ATTENTIONS)}")
    print(f"models: {', '.join(EMBEDDED)} (embedded), a local folder, or a Hugging Face name")


def print_data(folder: Path) -> None:
    """Print what data each experiment wants, whether it is here, and how to get it."""
    from cachemend.datasets.inventory import inventory

    console = Console(markup=False, highlight=False)
    console.print(f"data folder: {folder.absolute()} (CACHEMEND_DATA)")
    table = Table(
        *(Column(title, overflow="fold") for title in ("name", "here", "where it belongs", "what it is", "licence"))
    )
    sources = inventory(folder)
    for source in sources:
        table.add_row(source.name, "yes" if source.present else "no", source.location, source.what, source.licence)
    console.print(table)
    for source in sources:
        if not source.present:
            console.print(f"{source.name}: missing {', '.join(source.missing)}. {source.fetch}", soft_wrap=True)
