"""The stress set: queries with an adversarial suffix, each against a cached answer that called another tool.

Built from CacheAttack's pairs of queries (Zhang et al. 2026), which carry no suffixes: those are searched here
(`stress_search`) and recorded, so that a second run reads them.
"""

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

from cachemend.calibration.candidate import Candidate
from cachemend.datasets.pair_build import SEED
from cachemend.datasets.seeded import draw
from cachemend.datasets.stress_search import GOAL, TEXTS, Encode, Found, search_suffix, with_suffix
from cachemend.repair_core.errors import InputError
from cachemend.repair_core.whole_file import write_whole

# An input further away would not be retrieved by any of the compared caches, so it tests none of them.
KEPT_FROM = 0.70
CLOSE_FROM = 0.90
_PATTERN = "cacheattack/query_pairs*.json"
_FORM = 1
_WRITE_EVERY = 16


class QueryPair(NamedTuple):
    """Two queries that need different tools."""

    source_id: str
    source: str
    source_tool: str
    target_id: str
    target: str
    target_tool: str


class StressInput(NamedTuple):
    """One input; returning the cached response is always wrong.

    Attributes:
        input_id: a digest of the pair's ids.
        similarity: cosine of the cached query and the query with its suffix, under the encoder searched against.
        candidate: the cached query and the tool its answer called, against the other query with the suffix.
    """

    input_id: str
    similarity: float
    candidate: Candidate


class StressSet(NamedTuple):
    """What the search reached.

    Attributes:
        inputs: those with a similarity of at least `KEPT_FROM`, by `input_id`.
        searched: query pairs searched.
        below: searched pairs that stayed under `KEPT_FROM` and are left out.
        close: inputs with a similarity of at least `CLOSE_FROM`.
        encoded: texts given to the encoder by this and earlier runs together.
    """

    inputs: tuple[StressInput, ...]
    searched: int
    below: int
    close: int
    encoded: int


def read_query_pairs(folder: Path) -> tuple[QueryPair, ...]:
    """The query pairs of ``cacheattack/query_pairs*.json`` in the data folder, in the file's order.

    Raises:
        InputError: no such file or more than one, or content of another form.
    """
    paths = sorted(folder.glob(_PATTERN))
    if len(paths) != 1:
        raise InputError(f"{folder} holds {len(paths)} files {_PATTERN}; it needs exactly one")
    try:
        pairs = tuple(_query_pair(row) for row in json.loads(paths[0].read_text(encoding="utf-8")))
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{paths[0]} is no list of source and target queries with tools: {type(error).__name__} {error}"
        ) from error
    same = [pair.source_id for pair in pairs if pair.source_tool == pair.target_tool]
    if same:
        raise InputError(f"{paths[0]}: pair {same[0]!r} names one tool on both sides; a stress pair needs two")
    return pairs


def build_stress(
    folder: Path,
    encode: Encode,
    *,
    encoder: str,
    record: Path,
    n: int | None = None,
    texts: int = TEXTS,
    goal: float = GOAL,
    seed: int = SEED,
) -> StressSet:
    """Search a suffix for every query pair, or read it where `record` has it, and keep the close ones.

    Args:
        folder: the data folder.
        encode: texts -> vectors of unit length ``[n, d]``.
        encoder: the encoder's name, part of what a recorded search is found by.
        record: the JSON file of searches under the results folder; made where absent, replaced atomically.
        n: query pairs to take, drawn by `seed`; None for all.
        texts: the most texts to encode per pair.
        goal: a search ends at this similarity.
        seed: of the draw and the searches.

    Raises:
        InputError: query pairs or a record of another form.
    """
    pairs = sorted(read_query_pairs(folder), key=lambda pair: draw(seed, "stress", pair.source_id, pair.target_id))[:n]
    recorded = _read_record(record)
    inputs, encoded, unwritten = [], 0, 0
    for pair in pairs:
        key = _digest(_FORM, encoder, texts, goal, seed, pair.source, pair.target)
        if key not in recorded:
            recorded[key] = search_suffix(pair.source, pair.target, encode, texts=texts, goal=goal, seed=seed)
            unwritten += 1
        if unwritten == _WRITE_EVERY:
            _write_record(record, recorded)
            unwritten = 0
        found = recorded[key]
        encoded += found.encoded
        if found.similarity >= KEPT_FROM:
            inputs.append(_stress_input(pair, found))
    if unwritten:
        _write_record(record, recorded)
    return StressSet(
        inputs=tuple(sorted(inputs, key=lambda item: item.input_id)),
        searched=len(pairs),
        below=len(pairs) - len(inputs),
        close=sum(item.similarity >= CLOSE_FROM for item in inputs),
        encoded=encoded,
    )


def _query_pair(row: dict[str, Any]) -> QueryPair:
    pair = QueryPair(
        row["source"]["id"],
        row["source"]["question"],
        row["source_tool"],
        row["target"]["id"],
        row["target"]["question"],
        row["target_tool"],
    )
    if not all(isinstance(value, str) and value.strip() for value in pair):
        raise TypeError("an id, question or tool is no text")
    return pair


def _stress_input(pair: QueryPair, found: Found) -> StressInput:
    return StressInput(
        _digest(pair.source_id, pair.target_id)[:16],
        found.similarity,
        Candidate(
            q_cache=pair.source,
            r_cache=f"tool: {pair.source_tool}",
            context_cache="",
            q_probe=with_suffix(pair.target, found.suffix),
            context_probe="",
        ),
    )


def _digest(*parts: str | int | float) -> str:
    return hashlib.sha256("\x1f".join(map(str, parts)).encode("utf-8")).hexdigest()


def _read_record(path: Path) -> dict[str, Found]:
    if not path.exists():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return {key: Found(**fields) for key, fields in content["searches"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is no record of suffix searches; delete it to search again") from error


def _write_record(path: Path, searches: dict[str, Found]) -> None:
    """Replace the record atomically: an interrupted search goes on from the last whole one."""
    searched = {"searches": {key: found._asdict() for key, found in searches.items()}}
    write_whole(path, json.dumps(searched).encode())
