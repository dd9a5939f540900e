"""Packaging: names that must not shadow others, links, locks and what they may hold."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("flows", "tasks", "repair_core", "calibration", "datasets", "warehouse")


def test_every_folder_is_linked_once() -> None:
    links = {
        path.name: path.readlink().as_posix() for path in (ROOT / "src" / "cachemend").iterdir() if path.is_symlink()
    }
    assert links == {name: f"../../{name}" for name in FOLDERS}


def test_hugging_face_datasets_stays_importable(tmp_path: Path) -> None:
    """A package called `datasets` on the path is found, whether or not the real one is installed."""
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets" / "__init__.py").write_text("WHOSE = 'site'\n")
    code = "import cachemend.datasets.niah, datasets; print(datasets.WHOSE, cachemend.datasets.niah.__name__)"
    out = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(tmp_path), "PATH": "", "HF_HUB_OFFLINE": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert out.stdout.split() == ["site", "cachemend.datasets.niah"]


def test_no_package_files_where_they_would_shadow() -> None:
    assert not (ROOT / "datasets" / "__init__.py").exists()
    assert not list((ROOT / "tests").rglob("__init__.py"))


def test_the_lock_pins_everything_and_names_no_machine() -> None:
    text = (ROOT / "requirements.lock").read_text()
    pins = [line for line in text.splitlines() if line and not line.startswith(("#", " "))]
    assert all(re.match(r"^[A-Za-z0-9._-]+(\[[a-z,-]+\])?==\S+", pin) for pin in pins)
    assert not any(word in pin for pin in pins for word in ("+cpu", "file:", "--"))
    assert "torch==2.13.0" in pins
    assert any(pin.startswith("triton==3.7.1") for pin in pins)


def test_models_are_pinned_by_hash() -> None:
    pins = [line for line in (ROOT / "models.lock").read_text().splitlines() if line and not line.startswith("#")]
    assert len(pins) == 2
    assert all(re.search(r"==\S+ --hash=sha256:[0-9a-f]{64}$", pin) for pin in pins)


def test_oracles_import_nothing_from_the_project() -> None:
    for path in (ROOT / "tests" / "oracles").glob("*.py"):
        assert "cachemend" not in path.read_text(), path


def test_wheel_and_sdist_hold_every_module(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)],
        capture_output=True,
        check=True,
    )
    import zipfile

    (wheel,) = tmp_path.glob("*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert f"cachemend/{path.relative_to(ROOT).as_posix()}" in held
