"""Checks of this machine, each one line: what works, what does not, and what to do about it."""

import os
import platform
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

from cachemend.repair_core.errors import InputError, Refused

PACKAGES = ("torch", "transformers", "ray", "prefect", "duckdb", "pyarrow")
MINIMUM_PYTHON = (3, 11)


class Check(NamedTuple):
    """One finding; `ok` is None where it is information only."""

    name: str
    ok: bool | None
    detail: str


def diagnose(results: Path) -> bool:
    """Print all checks and tell whether none failed."""
    good = True
    for check in _checks(results):
        mark = {True: "ok  ", False: "FAIL", None: "    "}[check.ok]
        print(f"{mark} {check.name}: {check.detail}", flush=True)
        good = good and check.ok is not False
    return good


def _checks(results: Path) -> Iterator[Check]:
    parts: tuple[Callable[[], Iterator[Check]], ...] = (_python, _packages, _machine, _models, _executors, _servers)
    for part in parts:
        yield from part()
    yield _results(results)


def _python() -> Iterator[Check]:
    wanted = ".".join(map(str, MINIMUM_PYTHON))
    yield Check("python", sys.version_info >= MINIMUM_PYTHON, f"{platform.python_version()} (needs {wanted})")


def _packages() -> Iterator[Check]:
    for name in PACKAGES:
        try:
            yield Check(name, True, version(name))
        except PackageNotFoundError:
            yield Check(name, False, "not installed; run make setup")


def _machine() -> Iterator[Check]:
    import psutil
    import torch

    memory = psutil.virtual_memory()
    detail = f"{os.cpu_count()} cores, {memory.available / 1e9:.1f} of {memory.total / 1e9:.1f} GB free"
    yield Check("machine", None, f"{platform.system()} {platform.machine()}, {detail}")
    for index in range(torch.cuda.device_count()):
        gpu = torch.cuda.get_device_properties(index)
        yield Check(f"gpu {index}", None, f"{gpu.name}, {gpu.total_memory / 1e9:.0f} GB")
    if not torch.cuda.is_available():
        yield Check("gpu", None, "none; workers run on the CPU")


def _models() -> Iterator[Check]:
    from cachemend.repair_core.embedded import EMBEDDED, wheel_file
    from cachemend.tasks.encoding import NAME, encoder_folder

    places: dict[str, Callable[[], object]] = {f"model {name}": partial(wheel_file, name) for name in EMBEDDED}
    for what, place in (places | {f"encoder {NAME}": encoder_folder}).items():
        try:
            yield Check(what, True, str(place()))
        except InputError as error:
            yield Check(what, False, str(error))


def _executors() -> Iterator[Check]:
    """Refresh a tiny random model with each executor, and with each attention backend that can run here.

    An experimental executor that refuses this machine is no failure.
    """
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from cachemend.repair_core import prefill, refresh
    from cachemend.repair_core.executors import EXECUTORS, EXPERIMENTAL
    from cachemend.repair_core.executors.backends import ATTENTIONS, DEFAULT, availability

    device = "cuda" if torch.cuda.is_available() else "cpu"
    config = LlamaConfig(
        vocab_size=32, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2
    )
    model = LlamaForCausalLM(config).to(device).eval()
    ids = list(range(24))
    cache = prefill(model, ids)
    ways = [(name, DEFAULT) for name in EXECUTORS] + [("packed", name) for name in ATTENTIONS if name != DEFAULT]
    for executor, attention in [*ways, *((name, DEFAULT) for name in EXPERIMENTAL)]:
        what = f"executor {executor}, attention {attention}"
        found = availability(attention, torch.device(device), model.dtype)
        if not found.runs:
            yield Check(what, None, f"does not run: {found.detail}")
            continue
        try:
            refresh(model, cache, ids, [8, 9, 15], executor, attention)
            yield Check(what, True, found.detail + (", experimental" if executor in EXPERIMENTAL else ""))
        except (InputError, RuntimeError, ImportError) as error:
            told = " ".join(str(error).split())
            if executor in EXPERIMENTAL and isinstance(error, Refused):
                yield Check(what, None, f"does not run: {told}")
            else:
                yield Check(what, False, told)


def _servers() -> Iterator[Check]:
    from cachemend.flows.local_server import answers

    url = os.environ.get("PREFECT_API_URL")
    if url:
        yield Check("prefect", answers(url), f"PREFECT_API_URL={url}")
    else:
        yield Check("prefect", None, "PREFECT_API_URL is not set; runs start a server of their own on 127.0.0.1")
    address = os.environ.get("CACHEMEND_RAY_ADDRESS")
    yield Check("ray", None, f"cluster {address}" if address else "runs start a cluster of their own on 127.0.0.1")


def _results(folder: Path) -> Check:
    parent = folder.absolute()
    while not parent.exists():
        parent = parent.parent
    writable = parent.is_dir() and os.access(parent, os.W_OK)
    return Check("results", writable, f"{folder.absolute()}, {'can' if writable else 'cannot'} be written")
