import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import cachemend.calibration as calibration
import cachemend.repair_core as core


@pytest.mark.parametrize("package", [core, calibration])
def test_every_public_name_resolves_to_what_it_is_called(package: ModuleType) -> None:
    for name in package.__all__:
        value = getattr(package, name)
        assert getattr(value, "__name__", name) == name


@pytest.mark.parametrize("package", [core, calibration])
def test_no_module_is_named_like_what_is_exported(package: ModuleType) -> None:
    """Importing a module sets its name on the package, where it would hide a function of that name."""
    assert package.__file__ is not None
    modules = {path.stem for path in Path(package.__file__).parent.iterdir()}
    assert modules.isdisjoint(package.__all__)


@pytest.mark.parametrize("modules_first", [False, True])
def test_names_are_the_same_whether_their_modules_or_the_package_are_asked_first(modules_first: bool) -> None:
    public = "public = {name: getattr(core, name) for name in core._MODULE_OF}"
    own = "own = {n: getattr(import_module(f'cachemend.repair_core.{m}'), n) for n, m in core._MODULE_OF.items()}"
    code = [public, own][:: -1 if modules_first else 1]
    lines = [
        "from importlib import import_module",
        "import cachemend.repair_core as core",
        *code,
        "print([n for n in own if not public[n] is own[n] is getattr(core, n)])",
    ]
    assert _printed("\n".join(lines)) == "[]"


def test_reading_results_does_not_load_the_model_libraries() -> None:
    code = (
        "import sys, cachemend.warehouse.store; "
        "print(sorted({'torch', 'transformers', 'ray', 'prefect'} & set(sys.modules)))"
    )
    assert _printed(code) == "[]"


def test_the_statistics_do_not_load_what_only_one_of_them_needs() -> None:
    assert _printed("import sys, cachemend.calibration; print('sklearn' in sys.modules)") == "False"


def _printed(code: str) -> str:
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return out.stdout.strip()
