"""The columns that identify a row of each result table.

They are what determines a result, never when or where it was computed.
"""

CASE_KEY = ("experiment", "cohort_digest", "case_digest")

_SETTINGS = (
    "executor",
    "attention",
    "model_fingerprint",
    "dtype",
    "decoding",
    "score_rule",
    "engine_version",
)

KEY = (*CASE_KEY, "allocator", "budget", "auxiliary", *_SETTINGS)
"""The key of `records`; the digests of stored rows depend on this order."""

NUMERIC_KEY = (*CASE_KEY, "path", "budget", *_SETTINGS)
REPEAT_KEY = (*NUMERIC_KEY, "cache", "repeat")

EDIT_RECORD_KEY = (*CASE_KEY, "policy", "k", "operator", *_SETTINGS)
EDIT_SEQUENCE_KEY = (*CASE_KEY, "mode", "staleness_limit", "step", "probe", "policy", "k", *_SETTINGS)
EDIT_TIMING_KEY = (
    "experiment",
    "model_fingerprint",
    "dtype",
    "executor",
    "attention",
    "engine_version",
    "device",
    "length",
    "k",
    "what",
    "copy",
)

GROUP_KEY = ("experiment", "cohort_digest", *_SETTINGS, "split")
"""What the rows of an analysis share; never pooled."""

CELL_KEY = (*GROUP_KEY, "condition", "distance", "family")
"""A group's cell: one condition, distance tier and wording, NULL for all wordings."""

SIGNAL_KEY = ("encoder", "lexicon_digest", "verifier", "language_model", "engine_version")
"""What a pair's measurements follow from, beside the pair; `language_model` is NULL in rows of before version 5."""

ROUTE_RECORD_KEY = (*CASE_KEY, *SIGNAL_KEY)
PLAN_KEY = ("split_plan", "own_guards")
"""How an analysis was made; NULL in rows of before schema version 4."""

POOL_KEY = ("experiment", "cohort_digest", "pool", *SIGNAL_KEY, *PLAN_KEY)
"""What the rows of a routing analysis share; never pooled."""

ROUTING_PROBE_KEY = ("experiment", "cohort_digest", "pool", "source", "side")

METHOD_KEY = (*POOL_KEY, "method", "setting")

_TIMED = (
    "experiment",
    "model_fingerprint",
    "dtype",
    "executor",
    "attention",
    "engine_version",
    "device",
    "torch_version",
    "length",
)
_ROUNDS = ("n_warmup", "n_timed")
REFRESH_TIMING_KEY = (*_TIMED, "rows", "n_intervals", *_ROUNDS)
ATTENTION_TIMING_KEY = REFRESH_TIMING_KEY
RECOVERY_TIMING_KEY = (*_TIMED, "cohort_digest", "case_digest", "method", "budget", *_ROUNDS)
"""Of the execution benchmark. Fewer rounds are another measurement, which a full one must not take for its own."""
