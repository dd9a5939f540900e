"""The columns of the numerical controls: repeated builds, executor probes, and the residual bound."""

from cachemend.warehouse.column import Column, Kind, may, must
from cachemend.warehouse.columns import OUTCOMES
from cachemend.warehouse.edit_columns import ENGINE, MODEL, SCORED, WRITTEN

CACHES = ("built", "shared")

_IDENTITY: tuple[Column, ...] = (
    must("record_key", Kind.TEXT, "SHA-256 of the identity columns: one key, one result"),
    must("experiment", Kind.TEXT, "experiment name, numerical-controls"),
    must("cohort_digest", Kind.TEXT, "digest of the whole cohort, also of a limited run"),
    must("case_digest", Kind.TEXT, "digest of the case's tokens and gold answers"),
    must("case_id", Kind.TEXT, "readable case name"),
    must("path", Kind.TEXT, "how the cache was made: re-prefill, replay, shift, or the allocator of a refresh"),
    may("budget", Kind.DOUBLE, "percent of the suffix recomputed; NULL for references"),
    must("arm", Kind.TEXT, "path, budget and executor in one"),
    *ENGINE,
    *MODEL,
    *SCORED,
    *WRITTEN,
    must("worker", Kind.TEXT, "worker that computed the row"),
    may("stratum", Kind.TEXT, "part of the cohort reported on its own, e.g. first-deleted"),
    may("length", Kind.INT, "nominal context length of the cohort cell, tokens"),
    must("n_tokens", Kind.INT, "tokens of the edited context, prefix and suffix"),
    must("suffix_length", Kind.INT, "retained tokens after the deletion"),
    may("n_positions", Kind.INT, "positions that were recomputed"),
    may("n_intervals", Kind.INT, "maximal runs of them"),
)
_OUTCOME = (
    must("outcome", Kind.TEXT, "ok, or how the arm failed", allowed=OUTCOMES),
    may("error", Kind.TEXT, "why it failed; NULL exactly when ok"),
)

REPEAT_RECORDS: tuple[Column, ...] = (
    *_IDENTITY,
    must("cache", Kind.TEXT, "built: a cache built for this answer; shared: the first build of all", allowed=CACHES),
    must("repeat", Kind.INT, "which of the three builds, or decodes from the shared cache, from 1"),
    may("answer", Kind.TEXT, "decoded answer"),
    may("answer_ids", Kind.INTS, "token ids of the answer"),
    may("logits_sha256", Kind.TEXT, "digest of the bytes of the first answer token's FP32 logits"),
    may("argmax", Kind.INT, "token with the largest of them"),
    may("gold_nll", Kind.DOUBLE, "mean negative log-likelihood of the gold answer, nats per token"),
    *_OUTCOME,
)

PROBE_RECORDS: tuple[Column, ...] = (
    *_IDENTITY,
    may("argmax_agreement", Kind.DOUBLE, "share of query tokens with the argmax of interval-wise refresh"),
    may("first_argmax_same", Kind.BOOL, "the last of them, which is the first answer token, agrees"),
    may("logits_relative_l2", Kind.DOUBLE, "relative L2 difference of the query's logits from interval-wise"),
    may("logits_max_abs", Kind.DOUBLE, "largest difference among them"),
    may("kv_relative_l2", Kind.DOUBLE, "recomputed K/V against interval-wise: largest relative L2 of a layer's K or V"),
    may("kv_relative_l2_where", Kind.TEXT, "that layer and tensor"),
    may("kv_max_abs", Kind.DOUBLE, "largest difference among recomputed K/V"),
    may("fp32_logits_relative_l2", Kind.DOUBLE, "the query's logits against the promoted FP32 model; NULL in FP32"),
    may("fp32_kv_relative_l2", Kind.DOUBLE, "recomputed K/V against it: largest relative L2 of a layer's K or V"),
    may("budget_n", Kind.INT, "maximum and RMS errors against FP32 that are compared with packed refresh's"),
    may("budget_n_over", Kind.INT, "of them, those above twice packed refresh's"),
    may("budget_largest_ratio", Kind.DOUBLE, "largest error as a multiple of packed refresh's"),
    may("budget_where", Kind.TEXT, "the layer, tensor and statistic with that ratio"),
    may("input_unchanged", Kind.BOOL, "the input cache is bit-identical after the refresh"),
    may("positions_exact", Kind.BOOL, "exactly B suffix positions were refreshed"),
    may("unselected_bit_identical", Kind.BOOL, "all other rows are bit-identical to Shift"),
    *_OUTCOME,
)

BOUND_RECORDS: tuple[Column, ...] = (
    *_IDENTITY,
    may("n_probed", Kind.INT, "layer, head and refreshed row combinations probed: the length of every list below"),
    may("reproduced", Kind.DOUBLE, "largest relative deviation of the probed rows' fresh K/V from the cached ones"),
    may("layer", Kind.INTS, "layer, from 0"),
    may("head", Kind.INTS, "query head, from 0"),
    may("position", Kind.INTS, "refreshed position in the edited context"),
    may("error_norm", Kind.DOUBLES, "L2 difference of the head's output from full-suffix Replay"),
    may("value_term", Kind.DOUBLES, "attention-weighted L2 differences of the values it reads"),
    may("bound_measured", Kind.DOUBLES, "the bound with the measured change of the logits"),
    may("bound", Kind.DOUBLES, "the bound with the change of the logits bounded by norms"),
    may("violated", Kind.INTS, "1 where the error exceeds a bound by more than rounding, else 0"),
    *_OUTCOME,
)
