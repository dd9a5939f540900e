"""Texts for the cases of a small results folder: one word a token, so that every token's place is plain."""

import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cachemend.warehouse.parts import write_part

WORDS = ("the", "café", "🙂", "opens", "at", "nine", "and", "</script><b>", "closes", "&amp;")
DELETED = " The code is 999999</del>."
QUERY = "What is the code?"
GOLD = "417282"


def tokens(n_tokens: int, seed: int) -> list[str]:
    """The tokens of an edited context; one in its last third is the gold value, one has no text of its own."""
    made = [f" {WORDS[(index + seed) % len(WORDS)]}" for index in range(n_tokens)]
    made[0] = "Here"
    made[n_tokens // 2] = ""
    made[2 * n_tokens // 3] = f" {GOLD}"
    return made


def case_file_entry(case_id: str, n_tokens: int, seed: int) -> dict[str, Any]:
    """What a cohort file holds of a case."""
    return {
        "case_id": case_id,
        "seed": seed,
        "context_text": "".join(tokens(n_tokens, seed)),
        "deleted_text": DELETED,
        "query_text": QUERY,
    }


def digest(entry: dict[str, Any]) -> str:
    """The digest of a cohort file's case: SHA-256 of its canonical JSON."""
    text = json.dumps(entry, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def write_cohort_file(results: Path, cohort_digest: str, entries: Sequence[dict[str, Any]]) -> Path:
    """Write entries as a run leaves its cohort."""
    path = results / "cohorts" / f"{cohort_digest}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"manifest": {}, "cases": entries}), encoding="utf-8")
    return path


def write_case_rows(results: Path, cohort_digest: str, records: Sequence[dict[str, Any]], store_text: bool) -> None:
    """Write the rows of `cases` for the cases of some records, with token stops and perhaps texts."""
    rows = []
    for record in {record["case_digest"]: record for record in records}.values():
        entry = case_file_entry(record["case_id"], record["n_tokens"], record["seed"])
        stops, at = [], 0
        for token in tokens(record["n_tokens"], record["seed"]):
            at += len(token)
            stops.append(at)
        shared = ("experiment", "case_digest", "case_id", "stratum", "length", "n_tokens", "prefix_length")
        rows.append(
            {
                **{name: record[name] for name in (*shared, "deleted_length", "suffix_length", "seed", "gold")},
                **{f"{name}_text": entry[f"{name}_text"] if store_text else None for name in ("context", "deleted")},
                "query_text": QUERY if store_text else None,
                "token_stops": stops,
                "cohort": "small",
                "cohort_digest": cohort_digest,
                "run_id": "run-1",
                "recorded_at": datetime(2026, 3, 4, tzinfo=UTC),
            }
        )
    write_part(results, "cases", rows)
