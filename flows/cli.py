"""The `cachemend` command. Heavy parts are imported by the commands that need them."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from cachemend.flows.settings import load_settings, prepare_environment
from cachemend.repair_core.errors import InputError

DONE, SOME_FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

app = typer.Typer(
    name="cachemend",
    help="Measure what to recompute when an LLM's context changes.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

ExperimentName = Annotated[str, typer.Argument(metavar="EXPERIMENT", help="one of those `cachemend list` shows")]
Model = Annotated[str | None, typer.Option("--model", help="embedded name, local folder or Hugging Face name")]
ConfigFile = Annotated[Path | None, typer.Option("--config", help="YAML or JSON file of config keys")]
Assignments = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="one config key; repeatable")]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="only the first cases of the cohort")]
Results = Annotated[Path | None, typer.Option("--results", help="results folder [default: results]")]
Alpha = Annotated[float, typer.Option("--alpha", help="share of returned responses that may be wrong")]
Budget = Annotated[float, typer.Option("--verifier-budget", help="verifier calls per request, from 0 to 1")]
Verdicts = Annotated[
    Path | None, typer.Option("--verdicts", metavar="PARQUET", help="the verifier's answers on the log, for a budget")
]
Labels = Annotated[Path | None, typer.Option("--labels", metavar="SHEET", help="filled label sheet of this log")]
Folder = Annotated[Path | None, typer.Option("--out", help="folder [default: FILE's name with -calibration]")]
Encoder = Annotated[
    str | None, typer.Option("--encoder", help="all-MiniLM-L6-v2 (the default), local folder or Hugging Face name")
]
Certify = Annotated[
    bool, typer.Option("--certify", help="only a policy whose risk, averaged over clusters, a test bounds")
]
Seed = Annotated[int | None, typer.Option("--seed", min=0, help="of all that is drawn at random")]
Sheet = Annotated[Path | None, typer.Option("--out", metavar="SHEET", help="sheet [default: audit-POOL.csv]")]
Filled = Annotated[Path | None, typer.Option("--score", metavar="SHEET", help="compare a filled sheet with the labels")]
PoolName = Annotated[str, typer.Option("--pool", metavar="seed|reconstruction|hard", help="pairs to draw from")]
Rows = Annotated[int | None, typer.Option("--n", help="pairs on the sheet [default: 120]")]
Clusters = Annotated[int, typer.Option("--clusters", min=1, help="calibration clusters of a data set")]
Replicates = Annotated[int, typer.Option("--replicates", min=2, help="data sets of each row")]
Cluster = Annotated[str | None, typer.Option("--address", help="running Ray cluster [default: one of our own]")]


@app.command()
def run(
    experiment: ExperimentName,
    model: Model = None,
    config: ConfigFile = None,
    assignments: Assignments = None,
    limit: Limit = None,
    results: Results = None,
    address: Cluster = None,
) -> None:
    """Run an experiment: compute what is missing, print the table, write the report."""
    from cachemend.flows.launch import prepare, run_here

    settings = load_settings()
    cluster = address or settings.ray_address
    prepare_environment(cluster)
    request = prepare(
        experiment,
        model=model,
        file=config,
        assignments=assignments or [],
        results=results or settings.results,
        address=cluster,
    )
    summary = run_here(request, limit=limit, address=cluster)
    raise typer.Exit(SOME_FAILED if summary.failures else DONE)


@app.command("list")
def list_all() -> None:
    """Show experiments, allocators, executors, rosters and embedded models."""
    from cachemend.flows.listing import print_listing

    print_listing()


@app.command()
def sql(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="one SELECT over the views")],
    results: Results = None,
    form: Annotated[str, typer.Option("--format", metavar="table|csv|json", help="how rows are printed")] = "table",
) -> None:
    """Query the results with SQL, also while a run writes them."""
    from cachemend.flows.tables import check_form, print_rows
    from cachemend.warehouse import store

    check_form(form)
    answer = store.ask(results or load_settings().results, query)
    for warning in answer.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    print_rows(answer.table, form)


@app.command()
def report(
    results: Results = None,
    out: Annotated[Path | None, typer.Option("--out", help="file [default: RESULTS/report.html]")] = None,
) -> None:
    """Write the report: one HTML page that needs no network."""
    from cachemend.warehouse.report import write_report

    print(write_report(results or load_settings().results, out))


@app.command()
def serve(
    experiment: ExperimentName,
    cron: Annotated[str, typer.Option("--cron", metavar="EXPR", help="schedule, such as '0 3 * * *'")],
    model: Model = None,
    config: ConfigFile = None,
    assignments: Assignments = None,
    limit: Limit = None,
    results: Results = None,
    address: Cluster = None,
) -> None:
    """Run an experiment on a schedule, as a Prefect deployment, until stopped."""
    from cachemend.flows.launch import prepare
    from cachemend.flows.serve import serve_schedule

    settings = load_settings()
    cluster = address or settings.ray_address
    prepare_environment(cluster)
    request = prepare(
        experiment,
        model=model,
        file=config,
        assignments=assignments or [],
        results=results or settings.results,
        address=cluster,
        cron=cron,
    )
    serve_schedule(request, cron, limit=limit, address=cluster)


@app.command()
def submit(
    experiment: ExperimentName,
    address: Annotated[str, typer.Option("--address", metavar="URL", help="job server, http://HOST:8265")],
    model: Model = None,
    config: ConfigFile = None,
    assignments: Assignments = None,
    limit: Limit = None,
    results: Results = None,
) -> None:
    """Run an experiment as a job on a Ray cluster and follow it."""
    from cachemend.flows.launch import prepare, submit_there

    settings = load_settings()
    prepare_environment(address)
    request = prepare(
        experiment,
        model=model,
        file=config,
        assignments=assignments or [],
        results=results or settings.results,
        elsewhere=True,
    )
    raise typer.Exit(submit_there(request, limit=limit, address=address))


@app.command()
def calibrate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="your cache log: .parquet, .jsonl or .csv")],
    alpha: Alpha = 0.025,
    budget: Budget = 0.0,
    verdicts: Verdicts = None,
    labels: Labels = None,
    out: Folder = None,
    encoder: Encoder = None,
    certify: Certify = False,
    seed: Seed = None,
) -> None:
    """Make a reuse policy from a labelled cache log, or a sheet to label from an unlabelled one."""
    prepare_environment()
    from cachemend.flows.calibrate import calibrate as calibrate_log
    from cachemend.flows.calibrate_options import CalibrateOptions

    given: dict[str, Any] = {"encoder": encoder, "seed": seed}
    options = CalibrateOptions(
        file=file,
        out=out,
        alpha=alpha,
        budget=budget,
        verdicts=verdicts,
        labels=labels,
        certify=certify,
        **{name: value for name, value in given.items() if value is not None},
    )
    calibrate_log(options)


@app.command()
def simulate(clusters: Clusters = 400, replicates: Replicates = 2000, seed: Seed = None) -> None:
    """Show how often certified selection errs, and how often it certifies, on simulated data of known risk."""
    from cachemend.calibration.intervals import SEED
    from cachemend.flows.simulate import print_simulation

    kept = print_simulation(clusters, replicates, SEED if seed is None else seed)
    raise typer.Exit(DONE if kept else SOME_FAILED)


@app.command()
def audit(out: Sheet = None, n: Rows = None, pool: PoolName = "seed", score: Filled = None) -> None:
    """Write a label-blind sheet of a pool of pairs, or score a filled one."""
    from cachemend.flows.audit import print_agreement, write_audit

    folder = load_settings().data
    if score is None:
        write_audit(pool, folder, out, 120 if n is None else n)
    elif out is None and n is None:
        print_agreement(pool, folder, score)
    else:
        raise InputError("--score reads a sheet; --out and --n are for writing one")


@app.command()
def data() -> None:
    """Show which data is present, where the rest belongs and how to fetch it."""
    from cachemend.flows.listing import print_data

    print_data(load_settings().data)


@app.command()
def doctor(results: Results = None) -> None:
    """Check this machine: packages, models, executors, servers, results folder."""
    from cachemend.flows.doctor import diagnose

    settings = load_settings()
    prepare_environment()
    raise typer.Exit(DONE if diagnose(results or settings.results) else SOME_FAILED)


def main(arguments: list[str] | None = None) -> None:
    """Run the command and exit: 0 done, 1 some cases failed, 2 bad input in one line, 130 interrupted."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        code: Any = app(given or ["--help"], standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        print("interrupted", file=sys.stderr)
        code = INTERRUPTED
    except BrokenPipeError:
        # The reader of a pipe, such as `head`, has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = DONE
    except typer.TyperException as error:
        print(f"error: {error.format_message()}", file=sys.stderr)
        code = BAD_INPUT
    except ValueError as error:
        if not _caused_by_the_user(error):
            raise
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        code = BAD_INPUT
    sys.exit(code if isinstance(code, int) else DONE)


def _caused_by_the_user(error: ValueError) -> bool:
    """Whether it is an InputError or a CalibrationError; the latter's package loads slowly, too slowly for --help."""
    calibration = sys.modules.get("cachemend.calibration.errors")
    return isinstance(error, InputError if calibration is None else (InputError, calibration.CalibrationError))


if __name__ == "__main__":
    main()
