import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
_SCRIPT = f"""
import sys
sys.path.insert(0, {str(TESTS)!r})
import numpy as np
from support.fixed_context import FixedContext
from cachemend.repair_core.allocators import allocate, names
from cachemend.repair_core.units import Unit
rng = np.random.default_rng(5)
units = tuple(Unit(i, min(i + 13, 333)) for i in range(0, 333, 13))
context = FixedContext(np.rint(rng.normal(size=333) * 8) / 8, units, ("amber code", "river") * 13, "amber")
print([allocate(name, context, b).tolist() for name in names() for b in (2, 33.3)])
"""


def test_allocators_choose_the_same_in_every_process() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", _SCRIPT],
            env={"PYTHONHASHSEED": seed, "PATH": "", "HF_HUB_OFFLINE": "1"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
    assert outputs.pop().count("[") == 1 + 2 * 14
