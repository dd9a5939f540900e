"""The stage that measures pairs: what is missing of a pool, in blocks, each written as soon as it is done."""

import hashlib
import json
import os
import socket
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cachemend.calibration.conditions import explain
from cachemend.datasets.cohort import read_cohort
from cachemend.datasets.pair import Pair
from cachemend.tasks.progress import progress
from cachemend.tasks.routing.identity import RouteIdentity
from cachemend.tasks.routing.measuring import Instruments, measure
from cachemend.tasks.run_shards import Written
from cachemend.tasks.stage import stage
from cachemend.warehouse.parts import finished_keys, write_part

_BLOCK = 64
_TEXTS = ("q_cache", "r_cache", "context_cache", "q_probe", "context_probe")


@stage(name="measure pairs")
def score_pairs(
    results: Path,
    cohort_file: Path,
    identity: RouteIdentity,
    instruments: Instruments,
    *,
    run_id: str,
    store_text: bool,
) -> Written:
    """Measure the pairs of a pool that have no record yet, or one whose verifier gave no answer.

    Args:
        results: results folder.
        cohort_file: the pool.
        identity: what the records share.
        instruments: what measures.
        run_id: the run.
        store_text: whether texts and explanations are stored with the records.
    """
    known = finished_keys(results, "route_records")
    pairs = [pair for pair in read_cohort(cohort_file, Pair).cases if identity.key(pair.digest) not in known]
    # Equal entries together: what is made of a cached answer is made once.
    pairs.sort(key=lambda pair: (pair.cluster, pair.q_cache, pair.r_cache, pair.context_cache, pair.pair_id))
    outcomes: Counter[str] = Counter()
    worker = f"{socket.gethostname()}:{os.getpid()}"
    with progress(len(pairs), f"{identity.experiment} {identity.pool}") as advance:
        for start in range(0, len(pairs), _BLOCK):
            block = pairs[start : start + _BLOCK]
            shared = {"run_id": run_id, "worker": worker, "recorded_at": datetime.now(UTC)}
            rows = [
                {**_described(pair, identity, store_text), **shared, **row}
                for pair, row in zip(block, measure([pair.candidate for pair in block], instruments), strict=True)
            ]
            write_part(results, "route_records", rows)
            outcomes.update(row["outcome"] for row in rows)
            advance(len(block))
    return Written(outcomes.total(), outcomes.total() - outcomes["ok"])


def _described(pair: Pair, identity: RouteIdentity, store_text: bool) -> dict[str, Any]:
    entry = "\x1f".join((pair.q_cache, pair.r_cache, pair.context_cache))
    return {
        **identity.of(pair.digest),
        "case_id": pair.pair_id,
        "source": pair.source,
        "family": pair.family,
        "cluster": pair.cluster,
        "rule": pair.rule,
        "entry_digest": hashlib.sha256(entry.encode("utf-8", "surrogatepass")).hexdigest(),
        "valid": bool(pair.label),
        **{name: getattr(pair, name) if store_text else None for name in _TEXTS},
        "explanation": json.dumps(explain(pair.candidate).to_dict()) if store_text else None,
    }
