"""How many workers, and what each asks for."""

from pathlib import Path

import pytest

from cachemend.repair_core.errors import InputError
from cachemend.tasks.cluster import Resources
from cachemend.tasks.sizing import PoolSize, pool_size, weight_bytes
from cachemend.tasks.worker_spec import WorkerSpec

from support.tiny_checkpoint import save_tiny

GB = 10**9
LAPTOP = Resources(cpus=2, gpus=0, node_cpus=2, node_gpus=0, memory=20 * GB)
GPU_NODE = Resources(cpus=16, gpus=2, node_cpus=16, node_gpus=2, memory=100 * GB)
TWO_NODES = Resources(cpus=16, gpus=0, node_cpus=8, node_gpus=0, memory=100 * GB)


def spec(**options: object) -> WorkerSpec:
    return WorkerSpec(model="m", max_new_tokens=32, score_rule="niah-list-v1", **options)


@pytest.mark.parametrize(
    ("have", "options", "asked", "expected"),
    [
        (LAPTOP, {}, {"model_bytes": GB // 2}, PoolSize(2, 1, 1, 0.0)),
        (LAPTOP, {}, {"model_bytes": 6 * GB}, PoolSize(1, 2, 2, 0.0)),  # memory for one only: it gets both cores
        (LAPTOP, {}, {"model_bytes": 60 * GB}, PoolSize(1, 2, 2, 0.0)),  # never none
        (LAPTOP, {}, {}, PoolSize(1, 2, 2, 0.0)),  # size unknown
        (LAPTOP, {}, {"workers": 4}, PoolSize(4, 1, 1, 0.0)),
        (LAPTOP, {}, {"threads": 2, "model_bytes": 1}, PoolSize(1, 2, 2, 0.0)),
        (TWO_NODES, {}, {"threads": 16, "model_bytes": 1}, PoolSize(1, 16, 8, 0.0)),  # no node has 16 to give
        (GPU_NODE, {}, {}, PoolSize(2, 8, 1, 1.0)),
        (GPU_NODE, {}, {"workers": 3}, PoolSize(3, 5, 1, 0.5)),  # two on a GPU, so all three start
        (GPU_NODE, {"device": "cpu"}, {"model_bytes": GB}, PoolSize(16, 1, 1, 0.0)),
        (GPU_NODE, {"device_map": "auto"}, {}, PoolSize(1, 16, 1, 2.0)),
    ],
)
def test_pool_size(have: Resources, options: dict, asked: dict, expected: PoolSize) -> None:
    assert pool_size(have, spec(**options), **asked) == expected


def test_a_gpu_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match="needs a GPU"):
        pool_size(LAPTOP, spec(device="cuda"))


def test_weights_are_judged_by_their_files(tmp_path: Path) -> None:
    folder = save_tiny(tmp_path / "model")
    size = weight_bytes(WorkerSpec(model=str(folder), max_new_tokens=1, score_rule="niah-list-v1"))
    assert size == (folder / "model.safetensors").stat().st_size
    both = WorkerSpec(model=str(folder), auxiliary=str(folder), max_new_tokens=1, score_rule="niah-list-v1")
    assert weight_bytes(both) == 2 * size
    absent = WorkerSpec(model="nobody/nothing", max_new_tokens=1, score_rule="niah-list-v1")
    assert weight_bytes(absent) is None
