"""The columns of the execution benchmark: refresh, attention alone, recovery (paper section 13.3 and 13.4)."""

from cachemend.warehouse.column import Column, Kind, may, must
from cachemend.warehouse.columns import OUTCOMES
from cachemend.warehouse.edit_columns import ENGINE, MODEL, WRITTEN

WEIGHTS = ("random", "checkpoint")
METHODS = ("re-prefill", "replay", "shift", "repair")

_PLACE: tuple[Column, ...] = (
    must("experiment", Kind.TEXT, "experiment name"),
    *MODEL,
    must("weights", Kind.TEXT, "random weights of a shape, or a checkpoint's", allowed=WEIGHTS),
    *ENGINE,
    must("device", Kind.TEXT, "what the seconds were measured on: accelerator, or processor and threads"),
    must("torch_version", Kind.TEXT, "version of PyTorch"),
)
_SAMPLE: tuple[Column, ...] = (
    may("seconds_median", Kind.DOUBLE, "median seconds of the timed runs; NULL where the line did not run"),
    may("seconds_low", Kind.DOUBLE, "fastest timed run, seconds"),
    may("seconds_high", Kind.DOUBLE, "slowest timed run, seconds"),
    must("n_warmup", Kind.INT, "rounds before the timed ones"),
    must("n_timed", Kind.INT, "timed rounds, all lines in an order drawn anew in each"),
)
_FLOOR: tuple[Column, ...] = (
    may("floor_flops_seconds", Kind.DOUBLE, "FLOPs of the work over the peak calibrated in the run; NULL if unknown"),
    may(
        "floor_bytes_seconds",
        Kind.DOUBLE,
        "bytes of the work, without any copy of the cache, over the bandwidth calibrated in the run",
    ),
    may("peak_flops", Kind.DOUBLE, "FLOP/s of a large matrix product in this precision"),
    may("bandwidth", Kind.DOUBLE, "bytes/s of a large copy, read and written"),
)
_COPY = may(
    "floor_copy_seconds",
    Kind.DOUBLE,
    "bytes of the rows copied beside the work, read and written, over the bandwidth",
)
_ENDED: tuple[Column, ...] = (
    may(
        "how", Kind.TEXT, "how the backend ran, e.g. interpreted or uncompiled; NULL for attention of the model itself"
    ),
    must("timed_stages", Kind.TEXTS, "what is in the seconds, what is not, and of what the floor is"),
    must("outcome", Kind.TEXT, "ok, or how the line failed; refused where it cannot run here", allowed=OUTCOMES),
    may("error", Kind.TEXT, "why it failed; NULL exactly when ok"),
    *WRITTEN,
)
_COUNTS: tuple[Column, ...] = (
    may("causal_pairs", Kind.BIGINT, "query-key pairs M(U), per head and layer"),
    may("token_layers", Kind.BIGINT, "recomputed positions times layers"),
    may("pair_share_bound", Kind.DOUBLE, "min(1, 2B/S): the largest share of a Replay's pairs that B positions take"),
)

REFRESH_TIMING_ROWS: tuple[Column, ...] = (
    *_PLACE,
    must("length", Kind.INT, "N, tokens of the edited context"),
    must("rows", Kind.INT, "B, positions recomputed"),
    must("n_intervals", Kind.INT, "R, runs they stand in"),
    *_COUNTS,
    *_SAMPLE,
    *_FLOOR,
    _COPY,
    may(
        "relative_l2",
        Kind.DOUBLE,
        "fresh rows against the interval-wise executor's, relative L2; NULL where it is NaN",
    ),
    may("input_unchanged", Kind.BOOL, "the input cache is bit-identical after all refreshes"),
    may("unselected_bit_identical", Kind.BOOL, "all other rows are bit-identical to Shift"),
    *_ENDED,
)
ATTENTION_TIMING_ROWS: tuple[Column, ...] = (
    *_PLACE,
    must("length", Kind.INT, "N, resident keys"),
    must("rows", Kind.INT, "B, query rows"),
    must("n_intervals", Kind.INT, "R, runs they stand in"),
    may("query_heads", Kind.INT, "query heads"),
    may("kv_heads", Kind.INT, "key/value heads"),
    may("head_dim", Kind.INT, "width of a head"),
    may("causal_pairs", Kind.BIGINT, "query-key pairs M(U), per head"),
    *_SAMPLE,
    *_FLOOR,
    may("tolerance_used", Kind.DOUBLE, "largest share of the FP64 tolerance that any output used; wrong above 1"),
    *_ENDED,
)
RECOVERY_TIMING_ROWS: tuple[Column, ...] = (
    *_PLACE,
    must("cohort_digest", Kind.TEXT, "digest of the contexts"),
    must("case_digest", Kind.TEXT, "digest of the context"),
    must("case_id", Kind.TEXT, "readable name of the context"),
    must("length", Kind.INT, "nominal length of the edited context, tokens"),
    must("n_tokens", Kind.INT, "tokens of the edited context"),
    must("suffix_length", Kind.INT, "retained tokens after the deletion"),
    must("method", Kind.TEXT, "re-prefill, replay, shift, or repair", allowed=METHODS),
    may("budget", Kind.DOUBLE, "percent of the suffix recomputed; NULL for references"),
    may("rows", Kind.INT, "positions recomputed"),
    may("n_intervals", Kind.INT, "runs they stand in"),
    *_COUNTS,
    *_SAMPLE,
    may("seconds_mean", Kind.DOUBLE, "mean seconds of the timed runs, whole recovery"),
    may("refresh_mean", Kind.DOUBLE, "mean seconds of the refresh alone; of a reference, its operator; NULL for shift"),
    *_FLOOR,
    _COPY,
    *_ENDED,
)
