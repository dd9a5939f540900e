"""Small, realistic result folders of response reuse: pairs and replayed decisions made by rule, written as parts."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from cachemend.warehouse.parts import write_part

BEGAN = datetime(2026, 5, 6, 9, 30, tzinfo=UTC)
SAFECACHE = ("alpha=0 B=0.16", "alpha=0 B=0.3", "alpha=0.025 B=0.3")
CERTIFIED = "learn-then-test alpha=0.1 B=0.3"
METHODS = (
    *(("safecache", setting) for setting in SAFECACHE),
    ("gptcache", "tau=0.9"),
    ("vcache", "tau=0.99"),
    ("exact-match", "query"),
    *(("similarity-verifier", setting) for setting in SAFECACHE),
    ("no-cache", "reference"),
)
FAMILIES = ("dialogue-state", "tool-state", "freshness", "refusal-validity", "authorization", "semantic-collision")
SOURCES = ("sgd", "tau-bench", "xstest")
TEXTS = ("q_cache", "r_cache", "context_cache", "q_probe", "context_probe")


class RoutePair(NamedTuple):
    """One pair and what a rule measures on it."""

    number: int
    valid: bool
    similarity: float
    d_match: float
    u_match: float
    h_rule: bool
    verdict: str
    same_query: bool

    @property
    def case_id(self) -> str:
        return f"pair-{self.number:03d}"

    @property
    def cluster(self) -> str:
        return f"cluster-{self.number // 2}"

    @property
    def source(self) -> str:
        return SOURCES[self.number // 2 % 3]

    @property
    def family(self) -> str:
        return FAMILIES[self.number // 6 % 6]


@dataclass(frozen=True, kw_only=True)
class RouteSetup:
    """One run over one pool; `change` may edit or drop (None) any record before it is written."""

    pool: str = "reconstruction"
    cohort: str = "cohort-pairs"
    verifier: str = "fingerprint of judge"
    verifier_model: str = "judge-1b"
    language_model: str = "fingerprint of judge"
    encoder: str = "all-MiniLM-L6-v2 0123abcd"
    run_id: str = "route-1"
    hours: int = 0
    pairs: int = 60
    splits: int = 4
    diagnostic: bool = False
    store_text: bool = False
    seed: int = 7
    own_guards: bool = True
    methods: tuple[tuple[str, str], ...] = METHODS
    change: Callable[[dict[str, Any]], dict[str, Any] | None] = field(default=lambda row: row)

    @property
    def moment(self) -> datetime:
        return BEGAN + timedelta(hours=self.hours)

    @cached_property
    def measured(self) -> tuple[RoutePair, ...]:
        return tuple(measured(number) for number in range(self.pairs))

    @property
    def identity(self) -> dict[str, Any]:
        """What the rows of the group share, labels apart."""
        return {
            "experiment": "response-routing",
            "cohort_digest": self.cohort,
            "pool": self.pool,
            "encoder": self.encoder,
            "lexicon_digest": "lexicon digest",
            "verifier": "label-oracle" if self.diagnostic else self.verifier,
            "language_model": self.language_model,
            "engine_version": 1,
        }

    @property
    def written(self) -> dict[str, Any]:
        return {"run_id": self.run_id, "recorded_at": self.moment}

    @property
    def group(self) -> dict[str, Any]:
        """What every analysis row begins with."""
        return {**self.identity, **self.plan, "diagnostic": self.diagnostic, **self.written}

    @property
    def plan(self) -> dict[str, Any]:
        """How the rows were analysed."""
        return {"split_plan": f"{self.splits} x 60/20/20 seed {self.seed}", "own_guards": self.own_guards}


def measured(number: int) -> RoutePair:
    """A pair: valid ones are more similar and match better; a verifier is right nine times of ten."""
    noise = Random(f"pair {number}")
    valid = number % 2 == 0
    right = noise.random() < 0.9
    return RoutePair(
        number=number,
        valid=valid,
        similarity=min(1.0, max(0.0, noise.gauss(0.95 if valid else 0.85, 0.07))),
        d_match=min(1.0, max(0.0, noise.gauss(0.25 if valid else 0.5, 0.15))),
        u_match=min(1.0, max(0.0, noise.gauss(0.4 if valid else 0.6, 0.15))),
        h_rule=noise.random() < (0.2 if valid else 0.7),
        verdict="VALID" if valid == right else "INVALID",
        same_query=noise.random() < (0.5 if valid else 0.15),
    )


def decided(setup: RouteSetup, pair: RoutePair, method: str, setting: str) -> tuple[str, bool]:
    """What a method does with a pair: action, and whether the cached response is returned."""
    good = pair.valid if setup.diagnostic else pair.verdict == "VALID"
    if method == "no-cache":
        return "regenerate", False
    if method == "exact-match":
        return ("reuse", True) if pair.same_query else ("regenerate", False)
    if method in ("gptcache", "vcache"):
        return ("reuse", True) if pair.similarity >= float(setting.partition("=")[2]) else ("regenerate", False)
    budget = float(setting.partition("B=")[2])
    if method == "similarity-verifier":
        return ("verify", good) if pair.similarity >= 1.05 - budget else ("regenerate", False)
    if setting.startswith("learn-then-test"):
        return ("reuse", True) if pair.d_match < 0.1 and not pair.h_rule else ("regenerate", False)
    if pair.d_match < (0.2 if setting.startswith("alpha=0 ") else 0.3) and not pair.h_rule:
        return "reuse", True
    return ("verify", good) if pair.d_match < 0.2 + budget else ("regenerate", False)


def route_record(setup: RouteSetup, pair: RoutePair) -> dict[str, Any]:
    """One row of `route_records`."""
    texts = {
        "q_cache": f"May user {pair.number} open the file?",
        "r_cache": f"Yes, user {pair.number} may.",
        "context_cache": "auth.role: admin",
        "q_probe": f"May user {pair.number} open the file?",
        "context_probe": f"auth.role: {'admin' if pair.valid else 'guest'}",
    }
    return {
        **setup.identity,
        "case_digest": f"digest of {pair.case_id}",
        "candidate_digest": f"texts of {pair.case_id}",
        "case_id": pair.case_id,
        "source": pair.source,
        "family": pair.family,
        "cluster": pair.cluster,
        "rule": "same state" if pair.valid else "changed state",
        "entry_digest": f"entry of {pair.cluster}",
        "valid": pair.valid,
        "lexicon_version": "1.0",
        "verifier_model": setup.verifier_model,
        "similarity": pair.similarity,
        "d_match": pair.d_match,
        "u_match": pair.u_match,
        "h_rule": pair.h_rule,
        "h_ctx": False,
        "h_own": pair.number % 7 == 0,
        "n_cache": 3,
        "n_request": 4,
        "fired": ["changed value"] if pair.h_rule else [],
        "verdict": pair.verdict,
        "query_filter": None,
        "likelihood": -1.25,
        "dialogue_similarity": 0.8,
        "same_version": True,
        "evidence_overlap": 0.5,
        "response_support": 0.75,
        "same_query": pair.same_query,
        **(texts if setup.store_text else dict.fromkeys(TEXTS)),
        "explanation": json.dumps(explanation(pair)) if setup.store_text else None,
        "worker": "host:1",
        **setup.written,
        "outcome": "ok",
        "error": None,
    }


def explanation(pair: RoutePair) -> dict[str, Any]:
    """An explanation as it is stored: one condition on each side, one match, and a rule that fired on a conflict."""
    keys = ("category", "subject", "relation", "value")
    ours = dict(zip(keys, ("auth", "auth", "role", "admin"), strict=True))
    theirs = {**ours, "value": "admin" if pair.valid else "guest"}
    fired = {"level": "rule", "rule": "changed value", "cache_value": "admin", "request_value": "guest"}
    match = {"condition": ours, "best": theirs, "m1": 1 - pair.d_match, "m2": 0.125}
    return {
        "cache": [{"condition": ours, "origins": [{"part": "context", "text": "auth.role: admin"}]}],
        "request": [{"condition": theirs, "origins": [{"part": "context", "text": f"auth.role: {theirs['value']}"}]}],
        "matching": {"d_match": pair.d_match, "u_match": pair.u_match, "pairs": [match]},
        "conflicts": {"h_rule": pair.h_rule, "h_ctx": False, "h_own": False, "fired": [fired] * pair.h_rule},
        "lexicon_version": "1.0",
        "lexicon_digest": "lexicon digest",
    }


def held_out(setup: RouteSetup, split: int) -> list[RoutePair]:
    """The test pairs of a split: whole clusters, about four in ten."""
    return [pair for pair in setup.measured if Random(f"{split} {pair.cluster}").random() < 0.4]


def exposure_rows(setup: RouteSetup, *methods: tuple[str, str]) -> list[dict[str, Any]]:
    """Rows of `route_exposures` of some methods, all of the setup for none."""
    rows = []
    for method, setting in methods or setup.methods:
        for split in range(setup.splits):
            for pair in held_out(setup, split):
                action, accepted = decided(setup, pair, method, setting)
                rows.append(
                    {
                        **setup.identity,
                        **setup.plan,
                        "method": method,
                        "setting": setting,
                        "split": split,
                        "case_digest": f"digest of {pair.case_id}",
                        "cluster": pair.cluster,
                        "valid": pair.valid,
                        "action": action,
                        "accepted": accepted,
                        **setup.written,
                    }
                )
    return rows


def route_records(setup: RouteSetup) -> Iterator[dict[str, Any]]:
    """The records of a setup, after its change."""
    for pair in setup.measured:
        row = setup.change(route_record(setup, pair))
        if row is not None:
            yield row


def run_row(setup: RouteSetup) -> dict[str, Any]:
    """The row of the run."""
    return {
        "run_id": setup.run_id,
        "experiment": "response-routing",
        "status": "done",
        "started_at": setup.moment,
        "finished_at": setup.moment + timedelta(minutes=5),
        "model": setup.verifier_model,
        "model_fingerprint": setup.verifier,
        "dtype": "float32",
        "cohort": f"{setup.pool} pairs",
        "cohort_digest": setup.cohort,
        "cohort_manifest": json.dumps({"n_cases": setup.pairs}),
        "config": "{}",
        "n_cases": setup.pairs,
        "n_arms": 1,
        "n_records": setup.pairs,
        "n_failed": 0,
        "git_commit": None,
        "git_dirty": None,
        "versions": "{}",
        "hardware": "{}",
        "seeds": "{}",
        "timed_stages": [],
        "engine_version": 1,
        "recorded_at": setup.moment,
    }


def write_records(results: Path, setup: RouteSetup) -> list[dict[str, Any]]:
    """Write the run and its records; returns the records."""
    rows = list(route_records(setup))
    write_part(results, "route_records", rows)
    write_part(results, "runs", [run_row(setup)])
    return rows
