"""What repair costs: refresh beside re-prefill, per model and device."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from cachemend.warehouse import store
from cachemend.warehouse.edit_evidence import PRIMARY_K
from cachemend.warehouse.report.edits.analysis import Cost
from cachemend.warehouse.report.edits.names import k_label
from cachemend.warehouse.report.figure_frame import Figure, frame, rendered, safe
from cachemend.warehouse.report.formats import number
from cachemend.warehouse.report.palette import STAGE_COLORS


class CostView(NamedTuple):
    """The timings of one model on one device."""

    key: str
    title: str
    sentence: str
    rows: Sequence[Cost]
    figure: Figure


def read_costs(results: Path) -> list[CostView]:
    """Return the timings of a results folder; models, precisions, engine versions and devices stay apart."""
    columns = ", ".join(Cost._fields)
    rows = [Cost(**row) for row in store.ask(results, f"SELECT {columns} FROM edit_cost").table.to_pylist()]
    groups: dict[tuple[object, ...], list[Cost]] = {}
    for row in rows:
        shared = (row.model, row.model_fingerprint, row.dtype, row.attention, row.engine_version, row.device)
        groups.setdefault(shared, []).append(row)
    return [_view(f"cost-{number}", found) for number, found in enumerate(groups.values())]


def _view(key: str, rows: Sequence[Cost]) -> CostView:
    rows = sorted(rows, key=lambda r: (r.length, r.executor, r.copy, r.k))
    first = rows[0]
    title = f"{first.model}, {first.dtype}, {first.attention} attention, {first.device}"
    return CostView(key, title, _sentence(rows), rows, _figure(rows))


def _sentence(rows: Sequence[Cost]) -> str:
    parts = []
    for length in sorted({row.length for row in rows}):
        mine = [r for r in rows if r.length == length and r.ratio is not None]
        if not mine:
            continue
        best = min(mine, key=lambda r: (abs(r.k - PRIMARY_K), not r.copy, r.refresh_seconds))
        parts.append(
            f"at {length:,} tokens, refreshing the span and {best.k} positions takes {_ms(best.refresh_seconds)} ms "
            f"against {_ms(best.re_prefill_seconds)} ms for a re-prefill, {number(best.ratio, 1)} times less "
            f"({best.executor} executor{', with a copy of the cache' if best.copy else ''}; token-layer ratio "
            f"{number(best.token_layer_ratio, 0)})"
        )
    if not parts:
        return "No re-prefill was timed in the same run as a refresh, so nothing is compared."
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def _figure(rows: Sequence[Cost]) -> Figure:
    bars = [
        (
            f"{r.length:,} tokens, {k_label(r.k)}, {r.executor}{'' if r.copy else ', in place'}",
            r.refresh_seconds,
            "refresh",
        )
        for r in rows
    ]
    for length in sorted({row.length for row in rows}):
        whole = next((r.re_prefill_seconds for r in rows if r.length == length and r.re_prefill_seconds), None)
        if whole is not None:
            bars.append((f"{length:,} tokens, re-prefill", whole, "prefill"))
    bars.sort(key=lambda bar: int(bar[0].split(" ")[0].replace(",", "")))
    height = 110 + 21 * len(bars)
    plot = frame(height, margin={"l": 8, "r": 16, "t": 8, "b": 48}, bargap=0.35, showlegend=False)
    plot.update_yaxes(autorange="reversed", automargin=True, ticklabelstandoff=6, showgrid=False)
    plot.update_xaxes(title={"text": "Milliseconds, median", "standoff": 8}, rangemode="tozero", zeroline=False)
    plot.add_bar(
        x=[1000 * seconds for _, seconds, _ in bars],
        y=[safe(label) for label, _, _ in bars],
        orientation="h",
        marker={"color": [STAGE_COLORS[kind] for _, _, kind in bars], "line": {"width": 0}},
        hovertemplate="%{y}: %{x:.1f} ms<extra></extra>",
    )
    caption = "Median of the timed runs; neither side processes the query."
    return rendered("cost", "Refresh beside re-prefill", caption, plot, height, wide=True)


def _ms(seconds: float | None) -> str:
    return number(None if seconds is None else 1000 * seconds, 1)
