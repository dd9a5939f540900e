"""The columns of what is measured about repair after an in-place edit: records, cases, sequences and timings.

Terms are those of the edit paper, "Cache Repair as Budgeted Recomputation": MR is margin recovery (equation 2), Flip
equation 3, and K counts the downstream positions recomputed besides the edit span.
"""

from cachemend.warehouse.column import Column, Kind, may, must
from cachemend.warehouse.columns import OUTCOMES

SPLITS = ("dev", "held-out")
CONDITIONS = ("direct", "derived", "irrelevant")
OPERATORS = ("recompute", "transplant", "none")
MODES = ("at-once", "successive", "successive-limit")
TIMED = ("refresh", "re-prefill")

MODEL: tuple[Column, ...] = (
    must("model", Kind.TEXT, "model as the user named it"),
    must("model_fingerprint", Kind.TEXT, "digest of the configuration and of a sample of every parameter"),
    must("dtype", Kind.TEXT, "weight and cache precision"),
)
SCORED: tuple[Column, ...] = (
    must("decoding", Kind.TEXT, "decoding settings, canonical text"),
    must("score_rule", Kind.TEXT, "name of the answer scorer and its version, e.g. flip/1"),
)
ENGINE: tuple[Column, ...] = (
    must("executor", Kind.TEXT, "refresh executor"),
    must("attention", Kind.TEXT, "attention backend"),
    must("engine_version", Kind.INT, "raised by hand when results may change"),
)
WRITTEN: tuple[Column, ...] = (
    must("run_id", Kind.TEXT, "run that wrote the row"),
    must("recorded_at", Kind.TIME, "when the row was recorded, UTC"),
    must("schema_version", Kind.INT, "version of this schema"),
)
_OUTCOME = (
    must("outcome", Kind.TEXT, "ok, or how the arm failed", allowed=OUTCOMES),
    may("error", Kind.TEXT, "why it failed; NULL exactly when ok"),
)
_CASE = (
    must("experiment", Kind.TEXT, "experiment name, e.g. edit-repair"),
    must("cohort_digest", Kind.TEXT, "digest of the whole cohort, also of a limited run"),
    must("case_digest", Kind.TEXT, "digest of the case's tokens and answers"),
    must("case_id", Kind.TEXT, "readable case name"),
)
_ITEM = (
    must("item_id", Kind.TEXT, "item that its direct, derived, irrelevant and distance forms share"),
    must("split", Kind.TEXT, "dev or held-out", allowed=SPLITS),
    must("condition", Kind.TEXT, "where the answer is: direct, derived or irrelevant", allowed=CONDITIONS),
    must("distance", Kind.INT, "nominal tier: tokens from the edit's end to the text with the answer"),
    must("family", Kind.TEXT, "wording of the record"),
)
_PLACES = (
    may("seed", Kind.BIGINT, "seed the case was drawn with"),
    must("n_tokens", Kind.INT, "tokens of the edited context"),
    must("span_start", Kind.INT, "first token of the edit span"),
    must("span_stop", Kind.INT, "token after the edit span"),
    must("carrier_start", Kind.INT, "first token of the text that holds the answer"),
    must("carrier_stop", Kind.INT, "token after that text"),
    must("block_stop", Kind.INT, "token after the document block that holds the edit"),
)
_ANSWERS = (
    must("old_answer", Kind.TEXT, "right answer before the edit (irrelevant: the other row's value)"),
    must("new_answer", Kind.TEXT, "right answer after the edit"),
)
_MARGINS = (
    may("margin", Kind.DOUBLE, "mean log-probability of the new answer minus the old one's, nats per token"),
    may("margin_stale", Kind.DOUBLE, "the same under the stale cache"),
    may("margin_clean", Kind.DOUBLE, "the same under the clean cache"),
    may("margin_recovery", Kind.DOUBLE, "MR: share of the stale-to-clean margin recovered; NULL at zero gap"),
    may("flip", Kind.BOOL, "the greedy answer holds the new answer and not the old one"),
)

EDIT_RECORDS: tuple[Column, ...] = (
    must("record_key", Kind.TEXT, "SHA-256 of the identity columns: one key, one result"),
    *_CASE,
    *_ITEM,
    must("policy", Kind.TEXT, "policy or diagnostic, or one of stale, span, clean"),
    may("k", Kind.INT, "K, downstream positions asked for; NULL for references and rules with their own length"),
    must("operator", Kind.TEXT, "how the positions were restored; none for stale and clean", allowed=OPERATORS),
    must("arm", Kind.TEXT, "policy@k, the policy or the reference; transplants begin with transplant:"),
    *ENGINE,
    *MODEL,
    *SCORED,
    must("worker", Kind.TEXT, "worker that computed the row"),
    *WRITTEN,
    *_PLACES,
    may("pool_size", Kind.INT, "downstream positions a policy may choose from"),
    may("positions", Kind.INTS, "chosen positions in the edited context, ascending, without the span"),
    may("intervals", Kind.INTERVALS, "the same positions as half-open runs"),
    may("n_positions", Kind.INT, "number of chosen positions: K, or what an own-length rule took"),
    may("n_intervals", Kind.INT, "number of those runs"),
    may("n_topup", Kind.INT, "chosen positions that are random top-up"),
    may("answer", Kind.TEXT, "decoded answer"),
    may("answer_ids", Kind.INTS, "token ids of the answer"),
    *_ANSWERS,
    may("logprob_new", Kind.DOUBLE, "mean log-probability of the new answer, nats per token"),
    may("logprob_old", Kind.DOUBLE, "mean log-probability of the old answer, nats per token"),
    *_MARGINS,
    may("retained", Kind.BOOL, "the clean cache flips and the margin gap is wide enough: the item counts"),
    may("kl_to_clean", Kind.DOUBLE, "divergence of the first answer token from the clean cache's, nats"),
    may("kl_recovery", Kind.DOUBLE, "share of the stale cache's divergence removed; NULL where undefined"),
    may("tv_to_clean", Kind.DOUBLE, "total variation of the first answer token against the clean cache"),
    may("effect_in_carrier", Kind.DOUBLE, "share of the positive causal effects inside the answer's text"),
    may("effect_in_block", Kind.DOUBLE, "share of them inside the edited block"),
    may("oracle_depth", Kind.DOUBLE, "median rank of the causal oracle's positions in the attention ranking"),
    may("embedding_features", Kind.JSON, "cosines of span, question and context, by name, JSON; stale arm only"),
    may("guards", Kind.JSON, "guards of one retained item in four, label by name, JSON; clean arm only"),
    may("token_layers", Kind.BIGINT, "recomputed tokens times layers, edit span included"),
    may("causal_pairs", Kind.BIGINT, "query-key pairs of the recomputation, per head and layer"),
    may("t_signal", Kind.DOUBLE, "seconds to obtain the policy's signal"),
    may("t_choose", Kind.DOUBLE, "seconds to choose the positions"),
    may("t_refresh", Kind.DOUBLE, "seconds to recompute span and positions"),
    may("input_unchanged", Kind.BOOL, "the input cache is bit-identical after the repair"),
    may("positions_exact", Kind.BOOL, "the span and exactly the chosen positions were refreshed"),
    may("unselected_bit_identical", Kind.BOOL, "all other rows are bit-identical to the stale cache"),
    may("upstream_bit_identical", Kind.BOOL, "all rows before the span are bit-identical to the stale cache"),
    *_OUTCOME,
)

EDIT_CASES: tuple[Column, ...] = (
    *_CASE,
    must("cohort", Kind.TEXT, "cohort name"),
    *_ITEM,
    must("actual_distance", Kind.INT, "tokens from the edit's end to the text with the answer"),
    *_PLACES,
    *_ANSWERS,
    may("context_text", Kind.TEXT, "edited context; NULL unless texts are stored"),
    may("query_text", Kind.TEXT, "query; NULL unless texts are stored"),
    may("old_span_text", Kind.TEXT, "what the edit replaced; NULL unless texts are stored"),
    may("new_span_text", Kind.TEXT, "what it put there; NULL unless texts are stored"),
    may("token_stops", Kind.INTS, "where each token of the edited context ends in its text, characters"),
    *WRITTEN,
)

EDIT_SEQUENCES: tuple[Column, ...] = (
    must("record_key", Kind.TEXT, "SHA-256 of the identity columns: one key, one result"),
    *_CASE,
    must("split", Kind.TEXT, "dev or held-out", allowed=SPLITS),
    must("mode", Kind.TEXT, "all edits at once, one after another, or so with a staleness limit", allowed=MODES),
    may("staleness_limit", Kind.INT, "edits a row may be stale by before re-prefill; NULL for none"),
    must("n_edits", Kind.INT, "edits of the case"),
    must("step", Kind.INT, "edits applied when the probe was asked, from 1"),
    must("probe", Kind.INT, "which edit the probe asks about, from 0"),
    must("policy", Kind.TEXT, "policy, or one of stale, span, clean"),
    may("k", Kind.INT, "K, downstream positions per edit; NULL for references and rules with their own length"),
    *ENGINE,
    *MODEL,
    *SCORED,
    must("worker", Kind.TEXT, "worker that computed the row"),
    *WRITTEN,
    may("seed", Kind.BIGINT, "seed the case was drawn with"),
    must("n_tokens", Kind.INT, "tokens of the context"),
    may("answer", Kind.TEXT, "decoded answer"),
    *_ANSWERS,
    *_MARGINS,
    may("tv_to_clean", Kind.DOUBLE, "total variation of the first answer token against the clean cache"),
    may("worst_staleness", Kind.INT, "most edits that any row of the cache has missed"),
    may("n_stale_rows", Kind.INT, "rows that have missed at least one edit"),
    may("n_refreshed_rows", Kind.INT, "rows refreshed so far, edit spans included"),
    may("re_prefilled", Kind.BOOL, "the limit forced a re-prefill at this step"),
    *_OUTCOME,
)

EDIT_TIMINGS: tuple[Column, ...] = (
    must("experiment", Kind.TEXT, "experiment name"),
    *MODEL,
    *ENGINE,
    must("device", Kind.TEXT, "what the seconds were measured on, e.g. cpu with 2 threads"),
    must("length", Kind.INT, "nominal context length, tokens"),
    may("k", Kind.INT, "K, downstream positions recomputed besides the span; NULL for re-prefill"),
    must("what", Kind.TEXT, "refresh of span and K positions, or re-prefill", allowed=TIMED),
    must("copy", Kind.BOOL, "the seconds include a defensive copy of the cache"),
    must("n_tokens", Kind.INT, "tokens of the edited context"),
    must("span", Kind.INT, "tokens of the edit span"),
    must("seconds_median", Kind.DOUBLE, "median seconds of the timed runs, query not included"),
    must("seconds_low", Kind.DOUBLE, "fastest timed run, seconds"),
    must("seconds_high", Kind.DOUBLE, "slowest timed run, seconds"),
    must("n_warmup", Kind.INT, "runs before the timed ones"),
    must("n_timed", Kind.INT, "timed runs"),
    may("token_layer_ratio", Kind.DOUBLE, "tokens times layers of a re-prefill over those of this refresh"),
    may("floor_seconds", Kind.DOUBLE, "seconds of the bare matrix products of this refresh, without any copy"),
    *WRITTEN,
)
