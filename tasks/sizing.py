"""How many workers a cluster takes, and what each of them asks for."""

from pathlib import Path
from typing import NamedTuple

from cachemend.repair_core.errors import InputError
from cachemend.repair_core.models import WEIGHT_PATTERNS, resolve
from cachemend.repair_core.random_models import PREFIX, is_random, random_dtype, shape_bytes
from cachemend.tasks.cluster import Resources
from cachemend.tasks.worker_spec import WorkerSpec

# Libraries and the caches of the arms held at once; weights come on top, once and half again while loading.
_BASE_BYTES = 2_200_000_000
_PER_WEIGHT_BYTE = 1.5


class PoolSize(NamedTuple):
    """Workers, and what one of them asks of Ray.

    Attributes:
        workers: number of actors, each with a model of its own.
        threads: CPU threads of one.
        cpus: cores one asks for; at most what a single node has.
        gpus: accelerators one asks for; a fraction where several share one.
    """

    workers: int
    threads: int
    cpus: int
    gpus: float


def pool_size(
    have: Resources,
    spec: WorkerSpec,
    *,
    workers: int | None = None,
    threads: int | None = None,
    model_bytes: int | None = None,
) -> PoolSize:
    """Choose the number of workers: one per GPU, else one per core as far as memory goes.

    Args:
        have: what the cluster has.
        spec: the model and where it should run.
        workers, threads: the user's choice; None to choose here.
        model_bytes: size of the weights; None where unknown, which on CPUs makes one worker with every core.

    Raises:
        InputError: a GPU is asked for and the cluster has none.
    """
    on_gpu = have.gpus > 0 if spec.device is None else spec.device.startswith("cuda")
    if on_gpu and not have.gpus:
        raise InputError(f"device {spec.device!r} needs a GPU and the cluster has none; give device=cpu")
    cores = max(1, have.cpus)
    if spec.device_map is not None:
        count = 1
        gpus = float(have.node_gpus)
    elif on_gpu:
        count = workers or have.gpus
        gpus = 1 / -(-count // have.gpus)
    else:
        count = workers or _by_memory(have, cores // (threads or 1), model_bytes)
        gpus = 0.0
    each = threads or max(1, cores // count)
    return PoolSize(count, each, min(1 if gpus else each, have.node_cpus), gpus)


def _by_memory(have: Resources, wanted: int, model_bytes: int | None) -> int:
    if model_bytes is None:
        return 1
    fitting = have.memory // int(_BASE_BYTES + _PER_WEIGHT_BYTE * model_bytes)
    return max(1, min(wanted, fitting))


def weight_bytes(spec: WorkerSpec) -> int | None:
    """Bytes of the weights a worker holds, judged by their files; None while some are not on this machine."""
    sizes = [_file_bytes(spec.model, spec.revision, spec.dtype)]
    if spec.auxiliary is not None:
        sizes.append(_file_bytes(spec.auxiliary, None, spec.dtype))
    return sum(size for size in sizes if size) if all(sizes) else None


def _file_bytes(model: str, revision: str | None, dtype: str) -> int | None:
    if is_random(model):
        return shape_bytes(model.removeprefix(PREFIX), random_dtype(dtype))
    source = Path(resolve(model))
    folder = source if source.is_dir() else _hub_folder(model, revision)
    if folder is None:
        return None
    for pattern in WEIGHT_PATTERNS:
        if files := list(folder.glob(pattern)):
            size = sum(file.stat().st_size for file in files)
            return size * 2 if dtype == "float32" and not source.is_dir() else size
    return None


def _hub_folder(model: str, revision: str | None) -> Path | None:
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(model, "config.json", revision=revision)
    return Path(found).parent if isinstance(found, str) else None
