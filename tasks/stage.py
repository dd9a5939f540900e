"""How a stage becomes a Prefect task."""

from functools import partial

from prefect import task
from prefect.cache_policies import NO_CACHE

# Resuming reads the result parts: a cache keyed by code would run everything again after a changed comment.
stage = partial(task, cache_policy=NO_CACHE)
