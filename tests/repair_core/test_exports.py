import subprocess
import sys

import cachemend.repair_core as core


def test_every_public_name_resolves_to_what_it_is_called() -> None:
    for name in core.__all__:
        value = getattr(core, name)
        assert getattr(value, "__name__", name) == name


def test_reading_results_does_not_load_the_model_libraries() -> None:
    code = (
        "import sys, cachemend.warehouse.store; "
        "print(sorted({'torch', 'transformers', 'ray', 'prefect'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
