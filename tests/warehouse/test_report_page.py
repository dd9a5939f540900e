import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cachemend.repair_core.arms import sweep_arms
from cachemend.repair_core.errors import InputError
from cachemend.warehouse.report import write_report

from support.html_page import Page
from support.report_pages import FEW, figure, read, small, spoiled_results
from support.report_rows import Setup, cases, failed, write_results

HOSTILE = "</script><script>alert(1)</script><img src=https://evil.example/x.png onerror=alert(2)>"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return spoiled_results(tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="module")
def page(results: Path) -> Page:
    return read(write_report(results))


def test_page_loads_nothing_from_anywhere(page: Page) -> None:
    for tag, attrs in page.tags:
        for name in ("src", "srcset", "data", "poster", "action", "formaction", "background", "xlink:href"):
            assert name not in attrs, f"<{tag} {name}={attrs.get(name)}>"
        if "href" in attrs:
            assert tag == "a", f"<{tag} href>"
            assert str(attrs["href"]).startswith("#")
        assert tag not in ("link", "iframe", "object", "embed", "base", "img", "video", "audio")
    style = "".join(page.styles) + "".join(str(attrs.get("style", "")) for _, attrs in page.tags)
    assert "url(" not in style
    assert "@import" not in style
    policy = [attrs["content"] for tag, attrs in page.tags if attrs.get("http-equiv") == "Content-Security-Policy"]
    assert len(policy) == 1
    assert "default-src 'none'" in str(policy[0])


def test_links_lead_somewhere_on_the_page(page: Page) -> None:
    ids = {attrs["id"] for _, attrs in page.tags if "id" in attrs}
    targets = {str(attrs["href"])[1:] for tag, attrs in page.tags if tag == "a"}
    assert targets
    assert targets <= ids


def test_figures_are_drawn_by_a_browser(results: Path, tmp_path: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no Chromium on this machine")
    flags = "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --virtual-time-budget=20000"
    quiet = "--disable-quic --disable-background-networking --disable-component-update --disable-sync"
    command = [browser, *flags.split(), *quiet.split(), f"--user-data-dir={tmp_path}", "--enable-logging=stderr"]
    shown = write_report(results, tmp_path / "page.html")
    run = subprocess.run([*command, "--dump-dom", shown.as_uri()], capture_output=True, text=True, timeout=120)
    assert run.stdout.count('class="plot js-plotly-plot"') == 5
    assert "CONSOLE" not in run.stderr


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    columns = ("case_id", "model", "executor", "score_rule", "dtype", "decoding", "attention")

    def hostile(row: dict[str, Any]) -> dict[str, Any]:
        row |= {name: f"{name}{HOSTILE}" for name in columns}
        if row["allocator"] == "dense-tokens":
            row |= {"allocator": f"allocator{HOSTILE}", "arm": f"arm{HOSTILE}"}
        return failed(row, "case_error", f"error{HOSTILE}") if row["seed"] == 0 else row

    found = small(tmp_path, change=hostile)
    for name in (*columns, "allocator", "error"):
        assert f"{name}{HOSTILE}" in found.text
    assert not any(tag == "img" or "onerror" in attrs for tag, attrs in found.tags)
    assert sum("type" not in attrs for attrs, _ in found.scripts) == 2  # Plotly and the page's own
    [legend] = [trace["name"] for trace in figure(found, 0)["data"] if "allocator" in trace.get("name", "")]
    assert "<" not in legend  # Plotly reads tags in labels


@pytest.mark.parametrize(
    ("missing", "sentence"),
    [
        ("shift", "Shift was not run"),
        ("re-prefill", "Re-prefill was not run"),
        ("dense-tokens", "Dense tokens at 5 % was not run"),
        ("sur", "SUR at 5 % was not run"),
    ],
)
def test_a_missing_arm_is_named(tmp_path: Path, missing: str, sentence: str) -> None:
    arms = tuple(arm for arm in FEW if arm.allocator != missing)
    found = small(tmp_path, arms=arms)
    assert sentence in found.text
    assert ("McNemar p =" in found.text) == (missing in ("shift", "re-prefill"))


def test_references_alone_and_other_budgets(tmp_path: Path) -> None:
    assert "No allocator was run." in small(tmp_path / "a", arms=sweep_arms((), ())).text
    other = small(tmp_path / "b", arms=sweep_arms(("sur", "dense-tokens"), (10.0, 40.0))).text
    assert "No allocator was run at 5 %. SUR at 10 % of the retained suffix answers" in other


def test_a_run_without_end_is_announced(tmp_path: Path) -> None:
    assert "1 run without a recorded end: run-1" in small(tmp_path, status="running").text


def test_corrupt_parts_are_named_and_not_counted(tmp_path: Path) -> None:
    before = small(tmp_path).captioned("Measured").rows
    (tmp_path / "records" / "broken.parquet").write_bytes(b"PAR1 nothing of use")
    after = read(write_report(tmp_path))
    assert after.captioned("Measured").rows == before
    assert "1 result part could not be read and is not counted" in after.text
    assert str(tmp_path / "records" / "broken.parquet") in after.section("provenance")


@pytest.mark.parametrize("prepare", [lambda folder: None, Path.mkdir], ids=["missing", "empty"])
def test_no_results_is_an_input_error(tmp_path: Path, prepare: Callable[[Path], None]) -> None:
    folder = tmp_path / "nothing"
    prepare(folder)
    with pytest.raises(InputError, match="holds no results") as caught:
        write_report(folder)
    assert "\n" not in str(caught.value)
    assert not (folder / "report.html").exists()


def test_a_run_without_records_is_an_input_error(tmp_path: Path) -> None:
    write_results(tmp_path, Setup(cases=cases(2), arms=FEW, change=lambda row: None))
    with pytest.raises(InputError, match="holds no records"):
        write_report(tmp_path)


def test_a_page_that_cannot_be_written_is_an_input_error(results: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for target, reason in ((tmp_path, "is a folder"), (tmp_path / "file" / "page.html", "cannot be written")):
        with pytest.raises(InputError, match=reason):
            write_report(results, target)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file"]


def test_a_reader_never_sees_half_a_page(tmp_path: Path) -> None:
    write_results(tmp_path, Setup(cases=cases(3), arms=FEW))
    target = write_report(tmp_path)
    assert target == tmp_path / "report.html"
    broken, reads, stop = [], 0, threading.Event()

    def watch() -> None:
        nonlocal reads
        while not stop.is_set():
            text = target.read_text(encoding="utf-8")
            reads += 1
            if not text.endswith("</html>"):
                broken.append(len(text))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        for _ in range(3):
            write_report(tmp_path)
    finally:
        stop.set()
        watcher.join()
    assert reads > 0
    assert broken == []
    assert [p.name for p in tmp_path.iterdir() if p.name.endswith(".tmp")] == []


def test_published_figures_stand_beside_under_their_own_name(results: Path, page: Page) -> None:
    shown = {a["data-model"]: "hidden" not in a for tag, a in page.tags if tag == "div" and "data-model" in a}
    assert [name for name, visible in shown.items() if visible] == ["Qwen/Qwen3-8B"]
    table = page.captioned("Published: Qwen/Qwen3-8B")
    assert table.row("SUR") == ["–", "89.58", "98.96", "98.96", "98.96", "98.96", "98.96"]
    assert table.row("Re-prefill")[0] == "98.96"
    assert "another model on another roster" in page.section("g0")


def test_published_model_by_its_last_part(results: Path, tmp_path: Path) -> None:
    found = read(write_report(results, tmp_path / "page.html", published_model="glm-4.5-air"))
    shown = [a["data-model"] for _, a in found.tags if "data-model" in a and "hidden" not in a]
    assert shown == ["zai-org/GLM-4.5-Air"]
    with pytest.raises(InputError, match="published model 'Qwen3-9B' is unknown; did you mean 'Qwen/Qwen3-8B'"):
        write_report(results, published_model="Qwen3-9B")


def test_provenance_names_runs_and_drops(page: Page) -> None:
    text = page.section("provenance")
    for wanted in (
        "run-1",
        "7 min 31 s",
        "0123456789abcdef",
        "with uncommitted changes",
        "Example CPU",
        "torch: 2.13.0",
    ):
        assert wanted in text
    assert "123 tried, 120 kept, 3 dropped" in text
    assert "2 × the edited text does not tokenize as p + s" in text


def test_an_experiment_without_strata_lengths_or_publication(tmp_path: Path) -> None:
    other = {"experiment": "other-probe", "stratum": None, "length": None}
    found = small(tmp_path, change=lambda row: row | other)
    assert "Experiment other-probe. smollm2-135m in float32 answered 6 cases" in found.text
    assert (
        found.captioned("Measured: smollm2-135m, exact match in %, 6 cases").row("Shift")[0].split()[1].endswith("/6")
    )
    assert found.captioned("Exact match in %, by context length").rows[0] == ["Method", "no length", "All"]
    assert "Published" not in found.text
