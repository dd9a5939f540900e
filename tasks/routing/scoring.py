"""The stage that measures pairs: what is missing of a pool, in blocks, each written as soon as it is done."""

import hashlib
import json
import os
import socket
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cachemend.calibration.conditions import explain
from cachemend.calibration.verdicts import candidate_digest
from cachemend.datasets.cohort import read_cohort
from cachemend.datasets.pair import Pair
from cachemend.tasks.progress import progress
from cachemend.tasks.routing.identity import RouteIdentity
from cachemend.tasks.routing.measuring import Instruments, measure
from cachemend.tasks.routing.pool import records_of
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
        store_text: whether texts and explanations are stored with the records, also with those that are there.
    """
    known = finished_keys(results, "route_records")
    everyone = read_cohort(cohort_file, Pair).cases
    pairs = [pair for pair in everyone if identity.key(pair.digest) not in known]
    if store_text:
        _add_texts(results, [pair for pair in everyone if identity.key(pair.digest) in known], identity, run_id)
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
        "candidate_digest": candidate_digest(pair.candidate),
        "case_id": pair.pair_id,
        "source": pair.source,
        "family": pair.family,
        "cluster": pair.cluster,
        "rule": pair.rule,
        "entry_digest": hashlib.sha256(entry.encode("utf-8", "surrogatepass")).hexdigest(),
        "valid": bool(pair.label),
        **(_texts(pair) if store_text else dict.fromkeys((*_TEXTS, "explanation"))),
    }


def _texts(pair: Pair) -> dict[str, str]:
    return {
        **{name: getattr(pair, name) for name in _TEXTS},
        "explanation": json.dumps(explain(pair.candidate).to_dict()),
    }


def _add_texts(results: Path, pairs: Sequence[Pair], identity: RouteIdentity, run_id: str) -> None:
    """Write finished records that have no texts once more, with texts; what was measured stays as it is."""
    by_digest = {pair.digest: pair for pair in pairs}
    lacking = [
        row for row in records_of(results, identity, "*") if row["case_digest"] in by_digest and row["q_cache"] is None
    ]
    for start in range(0, len(lacking), _BLOCK):
        block = lacking[start : start + _BLOCK]
        now = {"run_id": run_id, "recorded_at": datetime.now(UTC)}
        rows = [{**row, **now, **_texts(by_digest[row["case_digest"]])} for row in block]
        # The version is that of the writing code.
        write_part(results, "route_records", [{k: v for k, v in row.items() if k != "schema_version"} for row in rows])
