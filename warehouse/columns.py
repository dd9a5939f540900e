"""The columns of the three result tables, each with its type and a one-line meaning."""

from dataclasses import dataclass
from enum import Enum

import pyarrow as pa

OUTCOMES = ("ok", "case_error", "worker_died", "out_of_memory", "refused")
STATUSES = ("running", "done", "failed")

_CIRCUMSTANCES = ("run_id", "worker", "recorded_at", "latency")
_INTERVAL = pa.struct([("start", pa.int32()), ("stop", pa.int32())])


class Kind(Enum):
    """A column type: the Arrow type that is stored and the DuckDB type it reads back as."""

    TEXT = "text", pa.string(), "VARCHAR"
    JSON = "json", pa.string(), "VARCHAR"
    INT = "int", pa.int32(), "INTEGER"
    BIGINT = "bigint", pa.int64(), "BIGINT"
    DOUBLE = "double", pa.float64(), "DOUBLE"
    BOOL = "bool", pa.bool_(), "BOOLEAN"
    TIME = "time", pa.timestamp("us"), "TIMESTAMP"
    INTS = "ints", pa.list_(pa.int32()), "INTEGER[]"
    TEXTS = "texts", pa.list_(pa.string()), "VARCHAR[]"
    INTERVALS = "intervals", pa.list_(_INTERVAL), 'STRUCT("start" INTEGER, "stop" INTEGER)[]'

    def __init__(self, label: str, arrow: pa.DataType, sql: str) -> None:
        self.label = label
        self.arrow = arrow
        self.sql = sql


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of a result table.

    Attributes:
        name: the column's name in Parquet and in SQL.
        kind: its type.
        meaning: one line, with the unit.
        nullable: whether NULL is allowed.
        allowed: the only values allowed; empty for any.
        circumstance: says who computed a result, when and in which time; two rows that differ in nothing else are
            the same result.
    """

    name: str
    kind: Kind
    meaning: str
    nullable: bool = False
    allowed: tuple[object, ...] = ()

    @property
    def circumstance(self) -> bool:
        return self.name in _CIRCUMSTANCES or self.name.startswith("t_")


def _must(name: str, kind: Kind, meaning: str, allowed: tuple[object, ...] = ()) -> Column:
    return Column(name=name, kind=kind, meaning=meaning, allowed=allowed)


def _may(name: str, kind: Kind, meaning: str, allowed: tuple[object, ...] = ()) -> Column:
    return Column(name=name, kind=kind, meaning=meaning, nullable=True, allowed=allowed)


_SIZES = (
    _may("stratum", Kind.TEXT, "part of the cohort reported on its own, e.g. first-deleted"),
    _may("length", Kind.INT, "nominal context length of the cohort cell, tokens"),
    _must("n_tokens", Kind.INT, "tokens of the edited context, prefix and suffix"),
    _must("prefix_length", Kind.INT, "tokens before the deletion"),
    _must("deleted_length", Kind.INT, "tokens deleted"),
    _must("suffix_length", Kind.INT, "retained tokens after the deletion"),
    _may("seed", Kind.BIGINT, "seed the case was drawn with"),
)

RECORDS = (
    _must("record_key", Kind.TEXT, "SHA-256 of the identity columns: one key, one result"),
    _must("experiment", Kind.TEXT, "experiment name, e.g. erasing-niah"),
    _must("cohort_digest", Kind.TEXT, "digest of the whole cohort, also of a limited run"),
    _must("case_digest", Kind.TEXT, "digest of the case's tokens and gold answers"),
    _must("case_id", Kind.TEXT, "readable case name"),
    _must("allocator", Kind.TEXT, "allocator, or one of dirty, shift, replay, re-prefill"),
    _may("budget", Kind.DOUBLE, "percent of the suffix recomputed; NULL for references"),
    _must("arm", Kind.TEXT, "allocator@budget, or the reference's name"),
    _may("auxiliary", Kind.TEXT, "model whose states score tokens: a fingerprint, or target; NULL where none does"),
    _must("executor", Kind.TEXT, "refresh executor"),
    _must("attention", Kind.TEXT, "attention backend"),
    _must("model", Kind.TEXT, "model as the user named it"),
    _must("model_fingerprint", Kind.TEXT, "digest of the configuration and of a sample of every parameter"),
    _must("dtype", Kind.TEXT, "weight and cache precision"),
    _must("decoding", Kind.TEXT, "decoding settings, canonical text"),
    _must("score_rule", Kind.TEXT, "name of the answer scorer and its version"),
    _must("engine_version", Kind.INT, "raised by hand when results may change"),
    _must("run_id", Kind.TEXT, "run that computed the row"),
    _must("worker", Kind.TEXT, "worker that computed the row"),
    _must("recorded_at", Kind.TIME, "when the row was recorded, UTC"),
    _must("schema_version", Kind.INT, "version of this schema"),
    *_SIZES,
    _may("positions_budget", Kind.INT, "B, suffix positions the budget allows"),
    _may("positions", Kind.INTS, "refreshed positions in the edited context, ascending"),
    _may("intervals", Kind.INTERVALS, "the same positions as half-open runs"),
    _may("n_intervals", Kind.INT, "number of those runs"),
    _may("answer", Kind.TEXT, "decoded answer"),
    _may("answer_ids", Kind.INTS, "token ids of the answer"),
    _may("parsed", Kind.TEXTS, "values the scorer read from the answer"),
    _may("gold", Kind.TEXTS, "gold values, in order"),
    _may("em", Kind.DOUBLE, "exact match, 0 or 1", allowed=(0.0, 1.0)),
    _may("gold_nll", Kind.DOUBLE, "mean negative log-likelihood of the gold answer, nats per token"),
    _may("tv_to_clean", Kind.DOUBLE, "total variation of the first token against Re-prefill"),
    _may("nr_tv", Kind.DOUBLE, "share of the Dirty-to-clean distance removed; NULL where undefined"),
    _may("deleted_logprob", Kind.DOUBLE, "mean log-probability of the deleted value as the answer, nats per token"),
    _may("leakage", Kind.DOUBLE, "the same minus that under the clean cache: above 0, the deleted value shows"),
    _may("token_layers", Kind.BIGINT, "recomputed tokens times layers"),
    _may("causal_pairs", Kind.BIGINT, "query-key pairs of the recomputation, per head and layer"),
    _may("t_prefill", Kind.DOUBLE, "seconds of the prefill: original context (dirty) or edited one (re-prefill)"),
    _may("t_signal", Kind.DOUBLE, "seconds to obtain the relevance signal"),
    _may("t_allocate", Kind.DOUBLE, "seconds to choose the positions"),
    _may("t_shift", Kind.DOUBLE, "seconds to delete rows and correct positions"),
    _may("t_refresh", Kind.DOUBLE, "seconds to recompute the chosen positions"),
    _may("t_query", Kind.DOUBLE, "seconds to process the query"),
    _may("t_decode", Kind.DOUBLE, "seconds to decode; NULL for a shared batch"),
    _may("latency", Kind.DOUBLE, "seconds from edit to answer; NULL outside latency runs"),
    _may("input_unchanged", Kind.BOOL, "the input cache is bit-identical after the refresh"),
    _may("positions_exact", Kind.BOOL, "exactly B distinct suffix positions were refreshed"),
    _may("unselected_bit_identical", Kind.BOOL, "all other rows are bit-identical to Shift"),
    _must("outcome", Kind.TEXT, "ok, or how the arm failed", allowed=OUTCOMES),
    _may("error", Kind.TEXT, "why it failed; NULL exactly when ok"),
)

CASES = (
    _must("experiment", Kind.TEXT, "experiment name"),
    _must("cohort", Kind.TEXT, "cohort name"),
    _must("cohort_digest", Kind.TEXT, "digest of the whole cohort"),
    _must("case_digest", Kind.TEXT, "digest of the case's tokens and gold answers"),
    _must("case_id", Kind.TEXT, "readable case name"),
    *_SIZES,
    _must("gold", Kind.TEXTS, "gold values, in order"),
    _may("context_text", Kind.TEXT, "edited context; NULL unless texts are stored"),
    _may("deleted_text", Kind.TEXT, "deleted text; NULL unless texts are stored"),
    _may("query_text", Kind.TEXT, "query; NULL unless texts are stored"),
    _may("token_stops", Kind.INTS, "where each token of the edited context ends in its text, characters"),
    _must("run_id", Kind.TEXT, "run that wrote the row"),
    _must("recorded_at", Kind.TIME, "when the row was recorded, UTC"),
    _must("schema_version", Kind.INT, "version of this schema"),
)

RUNS = (
    _must("run_id", Kind.TEXT, "the run"),
    _must("experiment", Kind.TEXT, "experiment name"),
    _must("status", Kind.TEXT, "running, done or failed", allowed=STATUSES),
    _must("started_at", Kind.TIME, "start, UTC"),
    _may("finished_at", Kind.TIME, "end, UTC; NULL while running"),
    _must("model", Kind.TEXT, "model as the user named it"),
    _may("model_fingerprint", Kind.TEXT, "digest of the configuration and of a sample of every parameter"),
    _must("dtype", Kind.TEXT, "weight and cache precision"),
    _may("cohort", Kind.TEXT, "cohort name"),
    _may("cohort_digest", Kind.TEXT, "digest of the whole cohort"),
    _may("cohort_manifest", Kind.JSON, "how the cohort was built and what it dropped, JSON"),
    _must("config", Kind.JSON, "settings of the run, JSON"),
    _may("n_cases", Kind.INT, "cases of the run"),
    _may("n_arms", Kind.INT, "arms per case"),
    _may("n_records", Kind.INT, "records the run wrote"),
    _may("n_failed", Kind.INT, "records among them that are not ok"),
    _may("git_commit", Kind.TEXT, "commit of the code; NULL outside a checkout"),
    _may("git_dirty", Kind.BOOL, "whether the checkout had changes; NULL outside a checkout"),
    _must("versions", Kind.JSON, "package versions, JSON"),
    _must("hardware", Kind.JSON, "processor, accelerator and driver, JSON"),
    _must("seeds", Kind.JSON, "seeds of the run, JSON"),
    _may("timed_stages", Kind.TEXTS, "stages whose seconds the records hold"),
    _must("engine_version", Kind.INT, "raised by hand when results may change"),
    _must("recorded_at", Kind.TIME, "when the row was recorded, UTC"),
    _must("schema_version", Kind.INT, "version of this schema"),
)
