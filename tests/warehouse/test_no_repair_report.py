"""What the report makes of an executor that is no repair: a control beside the others, never a result."""

import csv
from dataclasses import fields, replace
from pathlib import Path

import pytest

from cachemend.repair_core.executors import EXECUTORS, REPAIRING
from cachemend.warehouse.report import write_report
from cachemend.warehouse.report.rows import Identity

from support.html_page import Page
from support.report_pages import FEW, read, small
from support.report_rows import Setup, cases, write_results

NOTICE = "This executor is not a repair: with bottom-right, "
HEADING = "Which of the paper's orderings hold here"


def test_the_report_knows_every_executor_that_is_no_repair() -> None:
    blank = Identity(**{field.name: 0 if field.type is int else "" for field in fields(Identity)})
    assert [name for name in EXECUTORS if replace(blank, executor=name).repairs] == list(REPAIRING)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two groups that differ in nothing but the executor."""
    results = tmp_path_factory.mktemp("results")
    for name in ("packed", "bottom-right"):
        write_results(results, Setup(executor=name, run_id=name, cases=cases(6), arms=FEW))
    write_report(results)
    return results


def sections(page: Page) -> dict[str, str]:
    """The text of each group's section, by executor."""
    keys = [str(attrs["id"]) for tag, attrs in page.tags if tag == "section" and attrs.get("class") == "group"]
    texts = [page.section(key) for key in keys]
    return {next(name for name in EXECUTORS if f"on the {name} executor" in text): text for text in texts}


def test_its_section_says_so_before_anything_else(folder: Path) -> None:
    page = read(folder / "report.html")
    found = sections(page)
    assert set(found) == {"packed", "bottom-right"}
    assert "not a repair" not in found["packed"].lower()
    assert 0 < found["bottom-right"].index(NOTICE) < found["bottom-right"].index("A long context holds two facts")
    assert [name for name, text in found.items() if HEADING in text] == ["packed"]
    assert "where repair went" not in found["bottom-right"]


def test_its_finding_is_no_repairs(folder: Path) -> None:
    html = (folder / "report.html").read_text(encoding="utf-8")
    findings = [text.split("</p>")[0] for text in html.split('<p class="finding">')[1:]]
    [control] = [text for text in findings if text.startswith("Not a repair: ")]
    [repair] = [text for text in findings if text is not control]
    assert "With such rows, SUR at 5" in control
    assert "McNemar" not in control
    assert "With such rows" not in repair
    assert "McNemar" in repair
    # The list of groups at the top of the page repeats both.
    assert all(f"<p>{text}</p>" in html for text in findings)


def test_no_ordering_is_checked_on_it(folder: Path, tmp_path: Path) -> None:
    lines = list(csv.DictReader((folder / "report-orderings.csv").open(encoding="utf-8")))
    assert {line["executor"] for line in lines} == {"packed"}
    page = small(tmp_path, executor="bottom-right")
    assert NOTICE in page.text
    assert HEADING not in page.text
    assert not any(str(attrs.get("href")).endswith("-orderings") for _, attrs in page.tags)
    assert (tmp_path / "report-orderings.csv").read_text(encoding="utf-8").count("\n") == 1
