"""The user's own cache log: what was cached, what was asked later, and, where judged, which reuse was right."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from cachemend.calibration.candidate import Candidate
from cachemend.datasets.pair import Pair
from cachemend.datasets.pair_log_table import read_table, require_columns, text_column
from cachemend.repair_core.errors import InputError

TEXTS = tuple(field.name for field in fields(Candidate))
"""The columns a log must have: q_cache, r_cache, context_cache, q_probe, context_probe."""
OPTIONAL = ("label", "cluster", "pair_id")
"""The columns it may have; any others are ignored."""

_SAME_NAME = 0.8
_SHOWN = 12


class LogRow(NamedTuple):
    """One row of a log, without a label.

    Attributes:
        pair_id: the log's own id, or ``row-`` and the row's number.
        cluster: the rows it belongs with; splits never separate them.
        candidate: its texts.
    """

    pair_id: str
    cluster: str
    candidate: Candidate


@dataclass(frozen=True, kw_only=True)
class Log:
    """A log as read.

    Attributes:
        pairs: the labelled rows, in file order; none for an unlabelled log, else of both labels.
        unlabelled: the rows without a label, in file order; they are left out of `pairs`.
        clusters_given: whether the file has a column ``cluster``; else rows with the same cached request and context
            are one cluster, joined with those that share a new request with them.
    """

    pairs: tuple[Pair, ...]
    unlabelled: tuple[LogRow, ...]
    clusters_given: bool

    @property
    def summary(self) -> str:
        """One line: how many rows, with and without a label, and what the clusters are."""
        clusters = Counter([pair.cluster for pair in self.pairs] + [row.cluster for row in self.unlabelled])
        rule = "column cluster" if self.clusters_given else "identical cached entry, joined by identical new request"
        return (
            f"{clusters.total()} rows: {len(self.pairs)} labelled, {len(self.unlabelled)} without label (left out); "
            f"{len(clusters)} clusters by {rule}, the largest of {max(clusters.values())} rows"
        )


def read_log(path: Path) -> Log:
    """Read a log with the columns `TEXTS` and any of `OPTIONAL`; label 1 = reuse was right, 0 = it was not.

    Raises:
        InputError: an unreadable file or unknown suffix, a missing or misspelt column, no rows, a null or non-UTF-8
            text, an empty or repeated pair id, an empty cluster, a cached entry in two clusters, a label other than 0
            or 1, labels all the same, or equal texts with opposite labels.
    """
    table = read_table(path, (*TEXTS, *OPTIONAL))
    require_columns(path, table, TEXTS)
    _refuse_misspelt(path, table)
    texts = zip(*(text_column(path, table, name) for name in TEXTS), strict=True)
    candidates = [Candidate(**dict(zip(TEXTS, row, strict=True))) for row in texts]
    ids = _names(path, table, "pair_id") or [f"row-{row:06d}" for row in range(1, table.num_rows + 1)]
    repeated = next((name for name, count in Counter(ids).items() if count > 1), None)
    if repeated is not None:
        raise InputError(f"{path}: pair_id {repeated!r} is there {ids.count(repeated)} times; give each pair its own")
    given = _names(path, table, "cluster")
    if given is not None:
        _refuse_straddling(path, ids, given, candidates)
    rows = [LogRow(*row) for row in zip(ids, given or clusters_of(candidates), candidates, strict=True)]
    labels = _labels(path, table)
    return Log(
        pairs=labelled_pairs(path, rows, labels),
        unlabelled=tuple(row for row, label in zip(rows, labels, strict=True) if label is None),
        clusters_given=given is not None,
    )


def labelled_pairs(path: Path, rows: Sequence[LogRow], labels: Sequence[int | None]) -> tuple[Pair, ...]:
    """Return the rows that have a label as pairs of the pool "log".

    Raises:
        InputError: labels, but all of them the same, or opposite ones of equal texts.
    """
    _refuse_contradictions(path, rows, labels)
    known = {label for label in labels if label is not None}
    if len(known) == 1:
        raise InputError(f"{path}: all labels are {known.pop()}; a policy needs rows with 1 and rows with 0")
    return tuple(
        Pair(
            pair_id=row.pair_id,
            pool="log",
            source="log",
            family="",
            cluster=row.cluster,
            rule="",
            label=label,
            **{name: getattr(row.candidate, name) for name in TEXTS},
        )
        for row, label in zip(rows, labels, strict=True)
        if label is not None
    )


def clusters_of(candidates: Sequence[Candidate]) -> list[str]:
    """Name each candidate's cluster: same cached request and context, or the same new request, directly or by others.

    Clusters are numbered in the order of their first rows.
    """
    entries: dict[tuple[str, str], int] = {}
    requests: dict[str, int] = {}
    ends = np.array(
        [
            (
                entries.setdefault((candidate.q_cache, candidate.context_cache), len(entries)),
                requests.setdefault(candidate.q_probe, len(requests)),
            )
            for candidate in candidates
        ]
    )
    of_entry, of_request = ends[:, 0], ends[:, 1] + len(entries)
    size = len(entries) + len(requests)
    graph = coo_array((np.ones(len(ends), dtype=bool), (of_entry, of_request)), shape=(size, size))
    component = connected_components(graph, directed=False)[1][of_entry]
    order: dict[int, int] = {}
    return [f"cluster-{order.setdefault(int(number), len(order) + 1):06d}" for number in component]


def _refuse_straddling(
    path: Path, ids: Sequence[str], clusters: Sequence[str], candidates: Sequence[Candidate]
) -> None:
    first: dict[tuple[str, str, str], int] = {}
    for row, each in enumerate(candidates):
        at = first.setdefault((each.q_cache, each.r_cache, each.context_cache), row)
        if clusters[at] != clusters[row]:
            raise InputError(
                f"{path}: rows {ids[at]!r} and {ids[row]!r} have the same cached entry, but clusters {clusters[at]!r} "
                f"and {clusters[row]!r}: a cluster that would straddle splits; give both rows one cluster"
            )


def _refuse_contradictions(path: Path, rows: Sequence[LogRow], labels: Sequence[int | None]) -> None:
    first: dict[Candidate, tuple[str, int]] = {}
    for row, label in zip(rows, labels, strict=True):
        if label is None:
            continue
        other, known = first.setdefault(row.candidate, (row.pair_id, label))
        if label != known:
            raise InputError(
                f"{path}: rows {other!r} and {row.pair_id!r} have the same texts, but labels {known} and {label}; "
                "judge them again, or put what tells them apart into a context"
            )


def _refuse_misspelt(path: Path, table: pa.Table) -> None:
    # An ignored "labels" would make a labelled log an unlabelled one, an ignored "cluster_id" would split clusters.
    for name in OPTIONAL:
        others = [other for other in table.column_names if other not in (*TEXTS, *OPTIONAL)]
        near = get_close_matches(name, [other.lower() for other in others], n=1, cutoff=_SAME_NAME)
        if near and name not in table.column_names:
            other = next(other for other in others if other.lower() == near[0])
            raise InputError(f"{path}: column {other!r} is unknown; did you mean {name!r}? Rename it or leave it out")


def _names(path: Path, table: pa.Table, column: str) -> list[str] | None:
    if column not in table.column_names:
        return None
    if pa.types.is_integer(table.column(column).type):
        table = table.select([column]).cast(pa.schema([(column, pa.string())]))
    names = text_column(path, table, column)
    if "" in names:
        raise InputError(f"{path}: row {names.index('') + 1}: {column} is empty; name it or leave the column out")
    return names


def _labels(path: Path, table: pa.Table) -> list[int | None]:
    if "label" not in table.column_names:
        return [None] * table.num_rows
    kind = table.column("label").type
    values = table.column("label").to_pylist() if not pa.types.is_nested(kind) else [str(kind)]
    return [_label(path, row, value) for row, value in enumerate(values, 1)]


def _label(path: Path, row: int, value: Any) -> int | None:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, str):
        value = value.strip()
    if value == "":
        return None
    if value in (0, "0", "0.0"):
        return 0
    if value in (1, "1", "1.0"):
        return 1
    # A long value is a text in the wrong column, not to be repeated.
    shown = repr(value) if len(str(value)) <= _SHOWN else f"of {len(str(value))} characters"
    raise InputError(f"{path}: row {row}: label {shown} is not 0 (reuse was wrong) or 1 (reuse was right)")
