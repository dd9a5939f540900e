"""The stage that starts the first worker and learns which model it holds."""

from cachemend.tasks.pool import WorkerPool
from cachemend.tasks.stage import stage
from cachemend.tasks.worker_spec import ModelIdentity


@stage(name="load model")
def identify_model(pool: WorkerPool) -> ModelIdentity:
    """Return fingerprint, dtype and machine of the pool's model: a record's key needs them before any shard.

    Raises:
        InputError: the model cannot be loaded or repaired.
    """
    return pool.identify()
