"""What all tests share: nothing is fetched, one CPU thread, and nothing outside temporary folders is touched."""

import os
import tempfile

# Before anything imports Hugging Face, Prefect or Ray: they read these once.
_HOME = tempfile.mkdtemp(prefix="cachemend-tests-")
os.environ |= {
    "HF_HUB_OFFLINE": "1",
    "HF_MODULES_CACHE": f"{_HOME}/modules",
    "PREFECT_HOME": f"{_HOME}/prefect",
    "RAY_AUTH_MODE": "disabled",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "OMP_NUM_THREADS": "1",
}
for _name in ("PREFECT_API_URL", "RAY_ADDRESS", *(name for name in os.environ if name.startswith("CACHEMEND_"))):
    os.environ.pop(_name, None)

from cachemend.flows.settings import prepare_environment  # noqa: E402

prepare_environment()

import shutil  # noqa: E402
from collections.abc import Iterator  # noqa: E402

import pytest  # noqa: E402
import torch  # noqa: E402
from hypothesis import settings  # noqa: E402

torch.set_num_threads(1)
# Before anything imports Triton, which reads it once: without a device its kernels are interpreted.
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

# The ordinary suite tries the same examples every time: a red run means a change. `make test-all` draws new ones.
# Several processes share two cores: how long one example takes says nothing.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("random", derandomize=False, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


@pytest.fixture(scope="session", autouse=True)
def _clean_up() -> Iterator[None]:
    yield
    shutil.rmtree(_HOME, ignore_errors=True)
