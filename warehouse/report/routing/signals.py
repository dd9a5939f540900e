"""How well signals rank invalid reuse: signals down, sources across."""

from collections.abc import Sequence
from typing import NamedTuple

from cachemend.warehouse.report.routing.analysis import Ranked
from cachemend.warehouse.report.routing.names import signal_order
from cachemend.warehouse.report.routing.published import Paper


class SignalLine(NamedTuple):
    """One signal over all sources and within each; the paper's areas, None where it gives none."""

    signal: str
    cells: tuple[Ranked | None, ...]
    paper_auroc: float | None
    paper_auprc: float | None


class SignalTable(NamedTuple):
    """The table; a source heads a column with its pairs and the invalid ones among them, "" being all."""

    heads: list[tuple[str, int, int]]
    lines: list[SignalLine]


def signal_table(rows: Sequence[Ranked], paper: Paper) -> SignalTable:
    """Lay out the rankings of one group."""
    cells = {(row.signal, row.source): row for row in rows}
    heads = {row.source: (row.source, row.n, row.n_invalid) for row in rows}
    sources = sorted(heads)
    lines = [
        SignalLine(
            name,
            tuple(cells.get((name, source)) for source in sources),
            paper.of_signal(name, "auroc"),
            paper.of_signal(name, "auprc"),
        )
        for name in sorted({row.signal for row in rows}, key=signal_order)
    ]
    return SignalTable([heads[source] for source in sources], lines)
