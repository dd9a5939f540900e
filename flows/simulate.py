"""`cachemend simulate`: certified selection on data of known risk, and whether it keeps what it promises."""

from math import prod

from rich.table import Table

from cachemend.calibration.certified.learn_then_test import DELTA
from cachemend.calibration.certified.simulation import (
    BOTH_KINDS,
    RISK_CONTROL,
    RISK_FACTORS,
    SimulationRow,
    needs,
    simulate,
)
from cachemend.flows.tables import wide_console

WANTED = 0.80
"""Share of data sets of a quarter of the risk that a method should certify."""


def print_simulation(n_clusters: int, replicates: int, seed: int) -> bool:
    """Run the simulation, print its table and what falls short, and tell whether every limit on violations is kept."""
    rows = simulate(n_clusters=n_clusters, replicates=replicates, seed=seed)
    table = Table(
        title=f"{replicates:,} data sets of {n_clusters} clusters each, pairs of a cluster correlated; delta {DELTA:g}",
        title_justify="left",
    )
    table.add_column("method")
    for name in ("alpha", "true risk", "certified", "violations", "limit, + 2 SE"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(row.method, _percent(row.alpha, 1), *_cells(row))
    wide_console().print(table)
    print(f"{RISK_CONTROL} has no certificate to violate: its mean of invalid returns per request stands there instead")
    for row in rows:
        if _is_low(row) and row.certified < WANTED:
            print(_shortfall(row))
    return all(keeps(row) for row in rows)


def keeps(row: SimulationRow) -> bool:
    """Whether a row stays within its limit: of violations where the risk is too high, of the mean for risk control."""
    if row.mean_risk is not None:
        return row.mean_risk <= _limit(row)
    return _is_low(row) or row.certified <= _limit(row)


def _is_low(row: SimulationRow) -> bool:
    return row.risk is not None and row.risk <= row.alpha


def _limit(row: SimulationRow) -> float:
    return (row.alpha if row.delta is None else row.delta) + 2 * row.standard_error


def _cells(row: SimulationRow) -> tuple[str, str, str, str]:
    certified = _percent(row.certified, 1)
    if row.mean_risk is not None:
        return "-", certified, f"mean {_percent(row.mean_risk)}", _percent(_limit(row))
    risk = _percent(row.risk or 0.0, 4)
    if _is_low(row):
        return risk, certified, "-", "-"
    return risk, certified, certified, _percent(_limit(row), 1)


def _shortfall(row: SimulationRow) -> str:
    told = (
        f"{row.method} at alpha {_percent(row.alpha, 1)}: {_percent(row.certified, 1)} certified, short of {WANTED:.0%}"
    )
    if row.method != BOTH_KINDS:
        return told
    kinds = needs(row.alpha, n_clusters=row.n_clusters)
    parts = (
        f"of {need.hits} clusters with a {name} hit at most {need.allowed} may be wrong, which has probability "
        f"{need.chance:.0%}"
        if need.allowed >= 0
        else f"{need.hits} clusters with a {name} hit are too few even without an error"
        for name, need in zip(("direct", "verified"), kinds, strict=True)
    )
    both = prod(need.chance for need in kinds)
    low = _percent(RISK_FACTORS[-1] * row.alpha, 4)
    return f"{told}; at a risk of {low}, {'; '.join(parts)}; both {both:.0%}"


def _percent(value: float, digits: int = 2) -> str:
    return f"{100 * value:.{digits}f} %"
