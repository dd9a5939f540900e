"""The views of the numerical controls, against recounts of their rows in Python, and the section of the page."""

from datetime import timedelta
from itertools import combinations, product
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

from cachemend.calibration import mcnemar_exact
from cachemend.warehouse import store
from cachemend.warehouse.parts import write_part
from cachemend.warehouse.published_numerics import published_numerics
from cachemend.warehouse.report import write_report
from cachemend.warehouse.report.numerics import read_numerics
from cachemend.warehouse.schemas import TABLES, record_key

from support.numeric_rows import bound_row, one_of_each, probe_row, repeat_row
from support.result_rows import failed, record

PAPER = Path(__file__).resolve().parents[2] / "../shared/papers/kv-cache-repair.txt"
Rows = list[dict[str, Any]]


def rows_of(folder: Path, sql: str) -> Rows:
    return store.query(folder, sql).to_pylist()


def _repeats(cases: int, stratum: str | None = "first-deleted") -> Rows:
    rng = np.random.default_rng(cases)
    rows = []
    for case in range(cases):
        for path, cache in (("re-prefill", "built"), ("re-prefill", "shared"), ("replay", "built"), ("sur", "built")):
            rows += [
                repeat_row(
                    f"case-{case}",
                    path,
                    cache,
                    repeat=repeat,
                    stratum=stratum,
                    answer_ids=[int(rng.integers(2)), 7],
                    logits_sha256=str(rng.integers(3)),
                    argmax=int(rng.integers(2)),
                    gold_nll=float(rng.random()),
                )
                for repeat in (1, 2, 3)
            ]
    return rows


def _recount(rows: Rows, path: str, output: str) -> dict[str, float]:
    value = {
        "sequence": lambda row: tuple(row["answer_ids"]),
        "exact logits": lambda row: row["logits_sha256"],
        "argmax": lambda row: row["argmax"],
        "gold NLL": lambda row: row["gold_nll"],
    }[output]

    def of(case: str, path: str, cache: str) -> list:
        return [value(r) for r in rows if (r["case_id"], r["path"], r["cache"]) == (case, path, cache)]

    def apart(pairs: Any) -> float:
        if output == "gold NLL":
            return median(abs(a - b) for a, b in pairs)
        return 100 * (1 - fmean(a == b for a, b in pairs))

    found = []
    for case in sorted({row["case_id"] for row in rows}):
        clean, mine, shared = of(case, "re-prefill", "built"), of(case, path, "built"), of(case, "re-prefill", "shared")
        within, cross = apart(combinations(clean, 2)), apart(list(product(mine, clean)))
        found.append((apart(combinations(shared, 2)), within, apart(combinations(mine, 2)), cross, cross - within))
    names = ("shared", "re_prefill", "own", "cross_path", "excess")
    means = dict(zip(names, np.mean(found, axis=0), strict=True))
    return means | {"cross_path_median": median(f[3] for f in found), "excess_median": median(f[4] for f in found)}


@pytest.mark.parametrize("stratum", ["first-deleted", None])
def test_repeats_are_recounted(tmp_path: Path, stratum: str | None) -> None:
    rows = _repeats(5, stratum)
    # A case of which one build is missing counts in no figure.
    broken = [row | {"case_id": "case-9", "case_digest": "digest of case-9"} for row in rows[:12]]
    broken[-1] |= {"outcome": "case_error", "error": "it broke"}
    write_part(tmp_path, "repeat_records", rows + broken)
    found = rows_of(tmp_path, "FROM numerical_repeats")
    assert {(row["arm"], row["output"]) for row in found} == set(
        product(("replay", "sur@5 packed"), ("sequence", "exact logits", "argmax", "gold NLL"))
    )
    for row in found:
        expected = _recount(rows + broken if row["path"] == "replay" else rows, row["path"], row["output"])
        assert (row["n"], row["n_of"]) == (6 if row["path"] == "replay" else 5, 6)
        for name, value in expected.items():
            assert row[name] == pytest.approx(value), (row["arm"], row["output"], name)


def test_excess_is_not_clipped(tmp_path: Path) -> None:
    rows = _repeats(1)
    for row in rows:
        row["argmax"] = row["repeat"] if row["path"] == "re-prefill" and row["cache"] == "built" else 1
    write_part(tmp_path, "repeat_records", rows)
    (row,) = rows_of(tmp_path, "FROM numerical_repeats WHERE output = 'argmax' AND path = 'replay'")
    assert (row["shared"], row["re_prefill"], row["own"]) == (0, 100, 0)
    assert row["cross_path"] == pytest.approx(200 / 3)
    assert row["excess"] == pytest.approx(-100 / 3)


def test_probes_are_summed_up(tmp_path: Path) -> None:
    rows = [
        probe_row("case-0", "tiled"),
        probe_row("case-1", "tiled", argmax_agreement=0.5, first_argmax_same=False, logits_relative_l2=0.03),
        probe_row("case-2", "tiled", budget_n_over=2, budget_largest_ratio=2.5, budget_where="layer 1 keys rms"),
        probe_row("case-3", "tiled", outcome="case_error", error="it broke", budget_largest_ratio=9.0),
        probe_row("case-0", "direct", **dict.fromkeys(("budget_n", "budget_n_over", "budget_largest_ratio"))),
    ]
    write_part(tmp_path, "probe_records", rows)
    direct, tiled = rows_of(tmp_path, "FROM executor_probes ORDER BY executor")
    assert (tiled["n"], tiled["n_of"], tiled["n_failed"]) == (3, 4, 1)
    assert tiled["argmax_agreement_percent"] == pytest.approx(100 * 2.5 / 3)
    assert tiled["n_first_argmax_differs"] == 1
    assert tiled["logits_relative_l2_high"] == 0.03
    assert (tiled["n_over_budget"], tiled["n_budget"]) == (1, 3)
    assert (tiled["budget_largest_ratio"], tiled["budget_where"]) == (2.5, "layer 1 keys rms")
    assert (direct["n_over_budget"], direct["n_budget"], direct["budget_largest_ratio"]) == (None, 0, None)


def test_packed_is_the_measure_and_held_to_none(tmp_path: Path) -> None:
    own = {"budget_largest_ratio": 1.0, "budget_where": "layer 0 keys maximum"}
    write_part(tmp_path, "probe_records", [probe_row(**own), probe_row(executor="interval")])
    interval, packed = rows_of(tmp_path, "FROM executor_probes ORDER BY executor")
    names = ("n_budget", "n_over_budget", "budget_largest_ratio", "budget_where")
    assert [packed[name] for name in names] == [0, None, None, None]
    assert [interval[name] for name in names] == [1, 0, 1.25, "layer 3 values maximum"]
    numerics = read_numerics(tmp_path)
    assert numerics is not None
    (table,) = numerics.tables
    cells = {
        heading.rsplit(" ", 1)[1]: dict(zip(table.columns[1:], cells, strict=True)) for heading, cells in table.lines
    }
    assert (cells["packed"]["Over budget"], cells["packed"]["Largest ratio"]) == ("–", "–")
    assert cells["interval"]["Over budget"] == "0 of 1"
    assert cells["interval"]["Largest ratio"] == "1.250 (layer 3 values maximum)"


def test_bound_is_summed_up_by_layer_and_over_all(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    size, rows = 60, []
    for case in range(3):
        # Rounded, so that many are equal.
        error = rng.integers(1, 9, size) / 8
        columns = {"value_term": error * rng.integers(1, 4, size), "bound": error * rng.integers(1, 90, size)}
        rows.append(
            bound_row(
                f"case-{case}",
                n_probed=size,
                layer=np.repeat(np.arange(3), 20).tolist(),
                head=[0] * size,
                position=list(range(size)),
                error_norm=error.tolist(),
                bound_measured=(error * 2).tolist(),
                violated=[0] * size,
                **{name: values.tolist() for name, values in columns.items()},
            )
        )
    write_part(tmp_path, "bound_records", rows)
    found = {row["layer"]: row for row in rows_of(tmp_path, "FROM residual_bound")}
    assert found.keys() == {None, 0, 1, 2}

    def column(name: str, layer: int | None) -> np.ndarray:
        wanted = (1, 2) if layer is None else (layer,)
        return np.array([v for r in rows for v, at in zip(r[name], r["layer"], strict=True) if at in wanted])

    for layer, row in found.items():
        error, bound, value = (column(name, layer) for name in ("error_norm", "bound", "value_term"))
        assert row["n_probed"] == (60 if layer is not None else 180)
        assert row["n_cases"] == 3
        assert (row["n_of"], row["reproduced"]) == ((None, None) if layer is not None else (3, 1e-6))
        assert row["error_median"] == np.median(error)
        assert row["n_violated"] == 0
        assert row["tightness_low"] == pytest.approx((bound / error).min())
        for name, share in (("q05", 0.05), ("median", 0.5), ("q95", 0.95)):
            assert row[f"tightness_{name}"] == pytest.approx(np.quantile(bound / error, share))
        assert row["tightness_measured_median"] == pytest.approx(2)
        assert row["bound_rank_correlation"] == pytest.approx(spearmanr(bound, error).statistic)
        assert row["value_term_rank_correlation"] == pytest.approx(spearmanr(value, error).statistic)


def test_rows_without_error_have_no_tightness(tmp_path: Path) -> None:
    write_part(tmp_path, "bound_records", [bound_row()])
    found = {row["layer"]: row for row in rows_of(tmp_path, "FROM residual_bound")}
    assert found[0]["tightness_low"] == pytest.approx(20)
    assert found[None]["error_high"] == 0.4


def test_the_first_layer_is_in_no_figure_over_all(tmp_path: Path) -> None:
    row = bound_row(error_norm=[1e-9, 2e-9, 0.2, 0.4], bound=[1e3, 1e-9, 8.0, 2.0])
    write_part(tmp_path, "bound_records", [row])
    (over_all,) = rows_of(tmp_path, "FROM residual_bound WHERE layer IS NULL")
    assert (over_all["n_probed"], over_all["n_violated"]) == (4, 0)
    assert (over_all["tightness_low"], over_all["tightness_q95"]) == pytest.approx((5, 5 + 0.95 * 35))
    assert over_all["error_median"] == pytest.approx(0.3)
    assert over_all["bound_rank_correlation"] == pytest.approx(-1)
    page = write_report(tmp_path).read_text()
    assert "Layer 0 reads embeddings" in page


def test_a_probe_that_saw_other_rows_is_in_no_figure(tmp_path: Path) -> None:
    lists = ("layer", "head", "position", "error_norm", "value_term", "bound_measured", "bound", "violated")
    told = {"outcome": "case_error", "error": "the probe does not see what the refresh saw"}
    unseen = bound_row("case-1", reproduced=0.25, **dict.fromkeys(("n_probed", *lists)), **told)
    gone = bound_row("case-2", **dict.fromkeys(("n_probed", "reproduced", *lists)), **told)
    write_part(tmp_path, "bound_records", [bound_row(value_term=[0.01, 0.2, 0.3, 0.5])])
    alone = {row["layer"]: row for row in rows_of(tmp_path, "FROM residual_bound")}
    write_part(tmp_path, "bound_records", [unseen, gone])
    found = {row["layer"]: row for row in rows_of(tmp_path, "FROM residual_bound")}
    assert found[None] == alone[None] | {"n_of": 3, "reproduced": 0.25}
    assert found[0] == alone[0]
    page = write_report(tmp_path).read_text()
    assert "<td>0.25</td><td>1 of 3</td>" in page


def test_only_failed_bounds_are_told_too(tmp_path: Path) -> None:
    lists = ("layer", "head", "position", "error_norm", "value_term", "bound_measured", "bound", "violated")
    told = {"outcome": "case_error", "error": "it broke"}
    write_part(tmp_path, "bound_records", [bound_row(**dict.fromkeys(("n_probed", "reproduced", *lists)), **told)])
    (row,) = rows_of(tmp_path, "FROM residual_bound")
    assert (row["layer"], row["n_cases"], row["n_of"], row["n_probed"], row["n_violated"]) == (None, 0, 1, 0, 0)
    assert "<td>0 of 1</td>" in write_report(tmp_path).read_text()


def test_a_planted_violation_is_counted_and_told(tmp_path: Path) -> None:
    write_part(tmp_path, "bound_records", [bound_row()])
    assert "exceeds its bound" not in write_report(tmp_path, tmp_path / "good.html").read_text()
    told = {"outcome": "case_error", "error": "the error exceeds the bound at 1 of 4 probed rows"}
    planted = bound_row("case-1", error_norm=[0.0, 0.1, 9.0, 0.4], violated=[0, 0, 1, 0], **told)
    write_part(tmp_path, "bound_records", [planted])
    found = {row["layer"]: row["n_violated"] for row in rows_of(tmp_path, "FROM residual_bound")}
    assert found == {None: 1, 0: 0, 1: 1}
    page = write_report(tmp_path, tmp_path / "bad.html").read_text()
    assert "The residual error exceeds its bound at 1 probed row:" in page
    assert "<td>1 of 8</td>" in page


def _pairs(counts: dict[tuple[float, float], int]) -> Rows:
    rows, case = [], 0
    for (packed, interval), n in counts.items():
        for _ in range(n):
            rows.append(record(f"case-{case}", em=packed))
            text = "541001" if case % 2 else "another"
            rows.append(record(f"case-{case}", em=interval, executor="interval", answer=text))
            case += 1
    return rows


@pytest.mark.parametrize(("b", "c"), [(0, 0), (1, 0), (3, 1), (9, 0), (2, 7), (40, 55)])
def test_executors_are_paired(tmp_path: Path, b: int, c: int) -> None:
    rows = _pairs({(1.0, 1.0): 4, (1.0, 0.0): b, (0.0, 1.0): c, (0.0, 0.0): 2})
    rows += [failed("broken"), record("broken", executor="interval"), record("alone")]
    rows += [record("case-0", "shift", None), record("case-0", "shift", None, executor="interval")]
    write_part(tmp_path, "records", rows)
    shift, sur = rows_of(tmp_path, "FROM executor_pairs ORDER BY arm")
    assert (sur["executor"], sur["arm"], sur["n"], sur["n_of"]) == ("packed", "sur@5", 6 + b + c, 7 + b + c)
    assert (sur["both_right"], sur["only_this"], sur["only_interval"], sur["both_wrong"]) == (4, b, c, 2)
    mine, theirs = (
        [row["em"] for row in rows[: 2 * (6 + b + c)] if row["executor"] == e] for e in ("packed", "interval")
    )
    assert sur["p"] == pytest.approx(mcnemar_exact(mine, theirs).p, rel=1e-9)
    assert sur["same_text_percent"] == pytest.approx(100 * ((6 + b + c) // 2) / (6 + b + c))
    assert (shift["arm"], shift["n"], shift["p"], shift["same_text_percent"]) == ("shift", 1, 1.0, 100.0)


def test_other_settings_are_never_paired(tmp_path: Path) -> None:
    write_part(tmp_path, "records", [record(), record(executor="interval", dtype="bfloat16"), record("case-1")])
    assert rows_of(tmp_path, "FROM executor_pairs") == []


@pytest.mark.parametrize("table", ["repeat_records", "probe_records", "bound_records"])
def test_the_latest_row_of_a_key_counts(tmp_path: Path, table: str) -> None:
    row = one_of_each()[table]
    later = row | {"recorded_at": row["recorded_at"] + timedelta(hours=1), "run_id": "run-0", "model": "other name"}
    for each in (later, row):
        write_part(tmp_path, table, [each])
    assert [found["run_id"] for found in rows_of(tmp_path, f"FROM {table}")] == ["run-0"]


@pytest.mark.parametrize("table", ["repeat_records", "probe_records", "bound_records"])
def test_each_identity_column_counts_and_nothing_else(table: str) -> None:
    row, wanted = one_of_each()[table], TABLES[table]
    key = record_key(row, table)
    for column in wanted.columns:
        if column.name != "record_key":
            value = row.get(column.name)
            changed = {**row, column.name: 7 if isinstance(value, int | float | None) else "another"}
            assert (column.name in wanted.key) == (record_key(changed, table) != key), column.name


def test_page_of_all_controls(tmp_path: Path) -> None:
    write_part(tmp_path, "repeat_records", _repeats(2))
    write_part(tmp_path, "probe_records", [probe_row(), probe_row(executor="interval")])
    write_part(tmp_path, "bound_records", [bound_row()])
    page = write_report(tmp_path).read_text()
    assert "<h1>Numerical controls</h1>" in page
    assert "Disagreement in percent, 1 − A" in page
    assert "Qwen/Qwen3-30B-A3B, replay: sequence" in page
    assert "10.69" in page
    assert "0.67\u00a0% to 1.89\u00a0%" in page


@pytest.mark.skipif(not PAPER.exists(), reason="the paper's text is not here")
def test_published_figures_stand_in_the_paper() -> None:
    text = PAPER.read_text()
    table = text[text.index("Table 17: ") : text.index("These controls distinguish decoder reuse")]
    names = {"Qwen/Qwen3-8B": "Qwen3-8B", "meta-llama/Llama-3.1-8B-Instruct": "Llama-3.1-8B"}
    for model in {row.model for row in published_numerics() if row.table == 17}:
        mine = [row for row in published_numerics() if row.model == model and row.table == 17]
        nll = [f"{row.value:.4f}" for row in mine if row.output == "gold NLL"]
        assert f"{names.get(model, 'Qwen3-30B-A3B')} {' '.join(nll)}" in table
        for output, label in (("sequence", "Sequence"), ("exact logits", "Exact logits"), ("argmax", "Argmax")):
            line = " ".join(f"{row.value:.2f}" for row in mine if row.output == output)
            start = table.index(names.get(model, "Qwen3-30B-A3B") + " Sequence")
            assert f"{label} {line}" in table[start : start + 130]
    section = text[text.index("13.5 Numerical validation") : text.index("14 Mixed-Cache Error under")]
    for row in published_numerics():
        if row.place == "13.5":
            for value in (row.value, row.low, row.high):
                percent = f"{100 * value:.2f}" if value is not None else ""
                assert value is None or str(value) in section or percent in section, row
