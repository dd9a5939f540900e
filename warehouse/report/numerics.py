"""The numerical controls on the page: repeats beside the paper's, executors against each other, the residual bound."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cachemend.warehouse import store
from cachemend.warehouse.published_numerics import PublishedNumeric, published_numerics
from cachemend.warehouse.report.formats import MISSING, number, p_value, percent, plural

Row = dict[str, Any]

_OUTPUTS = ("sequence", "exact logits", "argmax", "gold NLL")
_FIGURES = ("shared", "re_prefill", "cross_path", "excess")


class NumericTable(NamedTuple):
    """A table of the section: column names, and lines of a heading and cells."""

    caption: str
    columns: tuple[str, ...]
    lines: Sequence[tuple[str, tuple[str, ...]]]
    note: str


class NumericsView(NamedTuple):
    """The section; a part without rows is left out."""

    tables: list[NumericTable]
    violations: int


def read_numerics(results: Path) -> NumericsView | None:
    """Return the numerical controls of a results folder; None if it holds none."""
    repeats, probes, pairs = (
        _rows(results, view) for view in ("numerical_repeats", "executor_probes", "executor_pairs")
    )
    bounds = _rows(results, "residual_bound")
    tables = []
    if repeats:
        tables += [_repeats(repeats), _published()]
    if probes:
        tables.append(_probes(probes))
    if pairs:
        tables.append(_pairs(pairs))
    if bounds:
        tables += [_bounds([row for row in bounds if row["layer"] is None]), _layers(bounds)]
    violations = sum(row["n_violated"] for row in bounds if row["layer"] is None)
    return NumericsView(tables, violations) if tables else None


def _rows(results: Path, view: str) -> list[Row]:
    rows: list[Row] = store.ask(results, f"SELECT * FROM {view}").table.to_pylist()
    return rows


def _setting(row: Row) -> str:
    parts = (row["model"], row["dtype"], row["stratum"] or "all cases", row["arm"])
    return ", ".join(parts)


def _apart(value: float | None, output: str) -> str:
    return number(value, 4) if output == "gold NLL" else number(value, 2)


def _repeats(rows: Iterable[Row]) -> NumericTable:
    lines = []
    for row in sorted(rows, key=lambda r: (_setting(r), _OUTPUTS.index(r["output"]))):
        figures = tuple(_apart(row[name], row["output"]) for name in ("shared", "re_prefill", "own", *_FIGURES[2:]))
        lines.append((f"{_setting(row)}: {row['output']}", (*figures, f"{row['n']} of {row['n_of']}")))
    note = (
        "Disagreement in percent, 1 − A, where A is the share of pairs that agree; gold NLL in nats, the median "
        "absolute difference of a case. Shared: three decodes from one Re-prefill cache. Re-prefill and own path: "
        "three builds each. Cross-path: the nine pairs of the path's builds and Re-prefill's. Excess: cross-path "
        "minus Re-prefill, not clipped, in percentage points. Exact logits compare the bytes of FP32 vectors. Means "
        "over cases."
    )
    columns = ("Path and output", "Shared", "Re-prefill", "Own path", "Cross-path", "Excess", "Cases")
    return NumericTable("Numerical repeats", columns, lines, note)


def _published() -> NumericTable:
    lines: dict[tuple[str, str], dict[str, float | None]] = {}
    found: list[PublishedNumeric] = [row for row in published_numerics() if row.table is not None]
    for row in found:
        lines.setdefault((row.model, row.output or ""), {})[row.metric] = row.value
    shown = [
        (f"{model}, replay: {output}", tuple(_apart(values.get(name), output) for name in _FIGURES))
        for (model, output), values in lines.items()
    ]
    note = (
        f"Budgeted KV-Cache Repair for Evolving Contexts, Table {found[0].table}: {found[0].n} cells per model of "
        "another cohort, BF16 on a GPU. Disagreement 1 − A in percent, as above."
    )
    columns = ("Path and output", "Shared", "Re-prefill", "Cross-path", "Excess")
    return NumericTable("Numerical repeats as published", columns, shown, note)


def _probes(rows: Iterable[Row]) -> NumericTable:
    lines = []
    for row in sorted(rows, key=_setting):
        over = MISSING if not row["n_budget"] else f"{row['n_over_budget']} of {row['n_budget']}"
        ratio = number(row["budget_largest_ratio"], 3)
        where = f"{ratio} ({row['budget_where']})" if row["budget_where"] else MISSING
        cells = (
            percent(row["argmax_agreement_percent"], 2),
            _share(row["logits_relative_l2_median"]),
            _share(row["logits_relative_l2_high"]),
            _share(row["kv_relative_l2_high"]),
            _share(row["fp32_logits_relative_l2_median"]),
            over,
            where,
            f"{row['n']} of {row['n_of']}",
        )
        lines.append((_setting(row), cells))
    own = [row for row in published_numerics() if row.table is None]
    paper = next(row for row in own if row.arm == "packed" and row.metric == "logits_relative_l2")
    failed = next(row for row in own if row.metric == "budget_largest_ratio_2k")
    note = (
        "Each executor against interval-wise refresh of the same positions: query tokens with the same argmax, "
        "relative L2 of the query's logits, and the largest of any layer's recomputed K or V. Against FP32: the same "
        "weights and starting cache promoted, TF32 off; over budget are cases in which a maximum or RMS error exceeds "
        "twice that of packed refresh, which is the measure and has no figure of its own. The paper's BF16 packed "
        f"logits differ by {_share(paper.low)} to {_share(paper.high)}; its own "
        f"attention kernel exceeds the budget once, at {number(failed.value, 3)}."
    )
    columns = (
        *("Executor", "Same argmax", "Logits, median", "Logits, largest", "K/V, largest", "Logits to FP32, median"),
        *("Over budget", "Largest ratio", "Cases"),
    )
    return NumericTable("Executors against each other", columns, lines, note)


def _pairs(rows: Iterable[Row]) -> NumericTable:
    lines = [
        (
            f"{_setting(row)}: {row['executor']}",
            (
                *(str(row[name]) for name in ("both_right", "only_this", "only_interval", "both_wrong")),
                p_value(row["p"]),
                percent(row["same_text_percent"]),
                f"{row['n']} of {row['n_of']}",
            ),
        )
        for row in rows
    ]
    note = (
        "Answers of the same cases by one executor and interval-wise: cases right by both, by one alone, by neither; "
        "exact two-sided McNemar; equal answer texts. References use no executor."
    )
    columns = ("Arm", "Both", "Executor alone", "Interval-wise alone", "Neither", "p", "Same text", "Cases")
    return NumericTable("Answer quality beside interval-wise", columns, lines, note)


def _bounds(rows: Iterable[Row]) -> NumericTable:
    lines = [
        (
            _setting(row),
            (
                f"{row['n_violated']:,} of {row['n_probed']:,}",
                *(number(row[f"tightness_{name}"], 1) for name in ("low", "q05", "median", "q95")),
                number(row["value_term_ratio_median"], 2),
                number(row["bound_rank_correlation"], 3),
                number(row["value_term_rank_correlation"], 3),
                MISSING if row["reproduced"] is None else f"{row['reproduced']:.2g}",
                f"{row['n_cases']} of {row['n_of']}",
            ),
        )
        for row in rows
    ]
    note = (
        "Proposition 14.1 at refreshed rows, in every layer and head. Layer 0 reads embeddings, which no repair "
        "changes; its rows are among those probed, and in no other figure here. Tightness is bound over error, 1 at "
        "best: lowest, 5th percentile, median, 95th percentile. Value term: the attention-weighted differences of the "
        "values that a row reads, all that is left of the bound at fixed attention, over the error. Correlations are "
        "of ranks (Spearman), with the error. Reproduced: the worst relative deviation of a probed row's fresh keys or "
        "values from the cached ones, over all cases and layers; a case beyond its precision's limit is a failure, "
        "with no figure here. That a proved bound holds says that it was evaluated rightly; its tightness and "
        "correlation say whether it is of use."
    )
    columns = (
        *("Setting", "Violated", "Lowest", "5 %", "Median", "95 %", "Value term over error, median"),
        *("Bound correlates", "Value term correlates", "Reproduced, worst", "Cases"),
    )
    return NumericTable("Residual bound", columns, lines, note)


def _layers(rows: Iterable[Row]) -> NumericTable:
    lines = [
        (
            f"{_setting(row)}: layer {row['layer']}",
            (
                f"{row['error_median']:.3g}",
                number(row["tightness_median"], 1),
                number(row["bound_rank_correlation"], 3),
                number(row["value_term_rank_correlation"], 3),
            ),
        )
        for row in rows
        if row["layer"] is not None
    ]
    columns = ("Layer", "Error, median", "Tightness, median", "Bound correlates", "Value term correlates")
    note = "Layer 0's error is the rounding of rotations alone, and its tightness and correlations are of that."
    return NumericTable(f"Residual bound by layer ({plural(len(lines), 'line')})", columns, lines, note)


def _share(value: float | None) -> str:
    """A relative difference as a percentage with three significant digits."""
    return MISSING if value is None else f"{100 * value:.3g}\u00a0%"
