"""A measured pool as arrays: what policies see, what baselines see, and the labels beside them."""

from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cachemend.calibration.baselines.evidence import Evidence
from cachemend.calibration.conditions.signals import CandidateSignals
from cachemend.calibration.intervals import SEED
from cachemend.calibration.routing.ordering import canonical_order
from cachemend.calibration.verdicts import Verdict
from cachemend.tasks.routing.identity import RouteIdentity
from cachemend.tasks.routing.measuring import NUMBERS
from cachemend.warehouse import store
from cachemend.warehouse.scanning import scan
from cachemend.warehouse.schemas import TABLES

_TEXTS = (
    *("case_digest", "candidate_digest", "case_id", "source", "family", "cluster", "rule", "entry_digest"),
    *("verdict", "query_filter"),
)
_MEASURES = ("similarity", "likelihood", "dialogue_similarity", "evidence_overlap", "response_support")
_COLUMNS = (*_TEXTS, *_MEASURES, "valid", "same_query", "same_version", *NUMBERS)


@dataclass(frozen=True, kw_only=True)
class RoutedPool:
    """The measured pairs of a pool, all of shape ``[n]``, in the pool's order.

    Attributes:
        identity: what their records share.
        columns: the columns of `route_records` by name, as arrays; texts as objects.
        verified: the verifier says exactly VALID.
        judged: some verifier was asked.
    """

    identity: RouteIdentity
    columns: dict[str, NDArray[Any]]
    verified: NDArray[np.bool_]
    judged: bool

    @classmethod
    def read(cls, results: Path, identity: RouteIdentity, digests: list[str]) -> Self:
        """Read the records of the pairs with these digests; those without signals are left out."""
        known = {row["case_digest"]: row for row in records_of(results, identity, ", ".join(_COLUMNS))}
        rows = [known[digest] for digest in digests if digest in known and known[digest]["similarity"] is not None]
        columns = {name: _array(name, [row[name] for row in rows]) for name in _COLUMNS}
        columns["candidate_digest"] = _numbered(columns["candidate_digest"].tolist())
        verified = np.array([row["verdict"] == Verdict.VALID.name for row in rows], dtype=bool)
        judged = any(row["verdict"] is not None for row in rows)
        return cls(identity=identity, columns=columns, verified=verified, judged=judged)

    def __len__(self) -> int:
        return len(self.verified)

    @property
    def valid(self) -> NDArray[np.bool_]:
        """The labels."""
        return self.columns["valid"]

    @property
    def keys(self) -> NDArray[Any]:
        """What request order and draws are hashed from: a digest of each pair's texts, which no label is part of."""
        return self.columns["candidate_digest"]

    @property
    def clusters(self) -> NDArray[Any]:
        """The cluster of each pair."""
        return self.columns["cluster"]

    @property
    def signals(self) -> CandidateSignals:
        """What conditions say."""
        columns: dict[str, Any] = {name: self.columns[name] for name in NUMBERS}
        return CandidateSignals(**columns)

    def take(self, index: NDArray[np.intp]) -> "RoutedPool":
        """The pairs at `index`, in its order."""
        columns = {name: column[index] for name, column in self.columns.items()}
        return replace(self, columns=columns, verified=self.verified[index])

    def with_verdicts(self, verified: ArrayLike) -> "RoutedPool":
        """The same pairs, judged by someone else."""
        return replace(self, verified=np.asarray(verified, dtype=bool), judged=True)

    def order(self, seed: int = SEED) -> NDArray[np.intp]:
        """The request order: by seeded hashes of the pairs' keys."""
        return canonical_order(self.keys.tolist(), seed)

    def evidence(self) -> Evidence:
        """What baselines look at; what was not measured passes no threshold."""
        columns, valid = self.columns, self.valid
        return Evidence(
            similarity=columns["similarity"],
            same_query=columns["same_query"],
            query_filter=columns["query_filter"] == Verdict.VALID.name,
            dialogue_similarity=columns["dialogue_similarity"],
            likelihood=columns["likelihood"],
            same_version=columns["same_version"],
            evidence_overlap=columns["evidence_overlap"],
            response_support=columns["response_support"],
            verified=self.verified,
            order=self.order(),
            entry=np.unique(columns["entry_digest"].astype(str), return_inverse=True)[1].astype(np.intp),
            regenerated=lambda at: bool(valid[at]),
        )


def other_verdicts(results: Path, pool: RoutedPool) -> dict[str, NDArray[np.bool_]]:
    """Verdicts that other verifiers in the folder gave on all pairs of a pool that this one's gave any on.

    Returns:
        by the verifier's name and fingerprint: whether it says exactly VALID, in the pool's order.
    """
    identity = pool.identity
    with store.connect(results) as connection:
        sql = (
            "SELECT verifier, verifier_model, case_digest, verdict FROM route_records WHERE cohort_digest = ? "
            "AND encoder = ? AND lexicon_digest = ? AND engine_version = ? AND verifier NOT IN (?, 'none') "
            "ORDER BY recorded_at, language_model"
        )
        same = [identity.cohort_digest, identity.encoder, identity.lexicon_digest, identity.engine_version]
        rows = connection.sql(sql, params=[*same, identity.verifier]).to_arrow_table().to_pylist()
    by_verifier: dict[str, dict[str, str | None]] = {}
    for row in rows:
        given = by_verifier.setdefault(f"{row['verifier_model']} ({row['verifier']})", {})
        given[row["case_digest"]] = row["verdict"]
    digests = pool.columns["case_digest"].tolist()
    asked = [verdict is not None for verdict in pool.columns["verdict"].tolist()]
    return {
        name: np.array([given.get(digest) == Verdict.VALID.name for digest in digests], dtype=bool)
        for name, given in sorted(by_verifier.items())
        if all(given.get(digest) is not None for digest, wanted in zip(digests, asked, strict=True) if wanted)
    }


def _numbered(keys: list[str]) -> NDArray[Any]:
    """Keys as given, the second of two equal ones with a number: the same texts may be two pairs of a log or pool."""
    seen: Counter[str] = Counter()
    made = []
    for key in keys:
        seen[key] += 1
        made.append(key if seen[key] == 1 else f"{key}#{seen[key]}")
    return np.array(made, dtype=object)


def records_of(results: Path, identity: RouteIdentity, columns: str) -> list[dict[str, Any]]:
    """The latest record of every pair of the pool; none where nothing was stored yet.

    Args:
        results: results folder.
        identity: what the records share.
        columns: names as in SQL.
    """
    if not any(scan(results, name).good for name in TABLES):
        return []
    shared = {name: value for name, value in asdict(identity).items() if name not in RouteIdentity.NAMES}
    same = " AND ".join(f"{name} = ?" for name in shared)
    with store.connect(results) as connection:
        sql = f"SELECT {columns} FROM route_records WHERE {same}"
        rows: list[dict[str, Any]] = connection.sql(sql, params=list(shared.values())).to_arrow_table().to_pylist()
    return rows


def _array(name: str, values: list[Any]) -> NDArray[Any]:
    """A column as an array: numbers with NaN for what was not measured, flags and counts, other texts as objects."""
    if name == "valid" or name.startswith(("h_", "same_")):
        return np.array(values, dtype=bool)
    if name.startswith("n_"):
        return np.array(values, dtype=np.int64)
    if name in _TEXTS:
        return np.array(values, dtype=object)
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
