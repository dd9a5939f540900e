"""The response-reuse paper's figures: each stands in the section it is said to stand in, and the counts add up."""

import csv
import re
from importlib.resources import files
from pathlib import Path

import pytest
from scipy.stats import norm

from cachemend.warehouse.published_routing import PublishedRouting, published_routing

PAPER = Path(__file__).resolve().parents[2] / "../shared/papers/safecache-routing.txt"
LINES = list(csv.DictReader(files("cachemend.warehouse").joinpath("published_routing.csv").read_text().splitlines()))
FRACTIONS = {"vchr", "fh", "hit_rate", "wilson_upper", "d_vchr", "d_fh", "agreement"}


def stands(number: str, text: str) -> bool:
    """Whether the extraction's form of a number ("40 _._ 159", "9 _/_ 4 _,_ 968") is in a text."""
    spaced = re.sub(r"\\?([.,/])", r"[ _]*\\\1[ _]*", re.escape(number))
    return bool(re.search(rf"(?<![\d.]){spaced}(?!\d)", text))


def forms(line: dict[str, str]) -> list[str]:
    """How a stored value can stand in the paper."""
    value, metric = float(line["value"]), line["metric"]
    if metric in FRACTIONS:
        percent = abs(value) * 100
        return [f"{percent:.{digits}f}" for digits in (3, 2)] + [f"{percent:.3f}".removeprefix("0")]
    if metric == "rate":
        return [f"{round(value * float(line['n'])):,}/{int(line['n']):,}"]
    if metric.startswith("cost: ") or metric == "p_joint":
        mantissa, _, _ = f"{value:.3e}".partition("e")
        shown = f"{value:.6f}".rstrip("0").removeprefix("0")
        return [mantissa, f"{float(mantissa):.2f}", shown]
    if value == int(value):
        return [f"{int(value):,}"]
    return [f"{value:.4f}", f"{value:.3f}", f"{value:.3f}".removeprefix("0")]


@pytest.mark.skipif(not PAPER.exists(), reason="the response-reuse paper's text is not here")
def test_each_figure_stands_in_the_paper() -> None:
    text = PAPER.read_text(encoding="utf-8")
    assert [line for line in LINES if not any(stands(form, text) for form in forms(line))] == []
    assert not stands("13,912", text)


def of(metric: str, table: int) -> dict[tuple[str | None, str | None, str | None], PublishedRouting]:
    return {(r.method, r.setting, r.family): r for r in published_routing() if r.metric == metric and r.table == table}


def test_accepted_is_valid_and_invalid_in_all_rows_of_table_11() -> None:
    accepted, valid, invalid = of("accepted", 11), of("n_valid", 11), of("n_invalid", 11)
    assert len(accepted) == 17
    for key, row in accepted.items():
        assert row.value == valid[key].value + invalid[key].value
        assert row.n == 13911


def test_the_paper_s_arithmetic_comes_out() -> None:
    upper = of("wilson_upper", 7)
    z = norm.ppf(0.95)
    for key, row in of("rate", 7).items():
        n, p = float(row.n or 0), row.value
        centre, spread = p + z * z / (2 * n), z * ((p * (1 - p) / n + z * z / (4 * n * n)) ** 0.5)
        assert (centre + spread) / (1 + z * z / n) == pytest.approx(upper[key].value, abs=5e-6)
    counts = {r.metric: r.value for r in published_routing() if r.table == 13}
    assert sum(counts[name] for name in ("ta", "tr", "fa", "fr")) == 1911
    assert (counts["ta"] + counts["tr"]) / 1911 == pytest.approx(counts["agreement"], abs=5e-5)
    families = of("exposures", 12)
    assert sum(row.value for row in families.values()) == 13911 - 0
    false = of("n_invalid", 12)
    assert sum(row.value for row in false.values()) == of("n_invalid", 11)["safecache", "alpha=0 B=0.16", None].value


def test_figures_are_single() -> None:
    rows = published_routing()
    keys = [tuple(row[:1]) + tuple(row[1:12]) + (row.metric,) for row in rows]
    assert len(keys) == len(set(keys))
    assert {row.table for row in rows} == {1, 2, 3, 4, 7, 8, 10, 11, 12, 13, 14, None}
