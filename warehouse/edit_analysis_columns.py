"""The columns of what the analysis of edit-repair records stores: summaries, contrasts, triggers, decision tables."""

from cachemend.warehouse.column import Column, Kind, may, must
from cachemend.warehouse.edit_columns import CONDITIONS, ENGINE, MODEL, OPERATORS, SCORED, SPLITS, WRITTEN

TRIGGERS = ("base-rate", "severity", "gate", "predictor")
STAGES = ("derived", "evaluated")
BANDS = ("05", "01", "10")

_GROUP: tuple[Column, ...] = (
    must("experiment", Kind.TEXT, "experiment name"),
    must("cohort_digest", Kind.TEXT, "digest of the whole cohort"),
    *MODEL,
    *SCORED,
    *ENGINE,
    must("split", Kind.TEXT, "dev or held-out", allowed=SPLITS),
)
_CELL: tuple[Column, ...] = (
    *_GROUP,
    must("condition", Kind.TEXT, "direct, derived or irrelevant", allowed=CONDITIONS),
    must("distance", Kind.INT, "nominal tier, tokens"),
    may("family", Kind.TEXT, "wording of the record; NULL for all of them"),
)

EDIT_RECOVERY_ROWS: tuple[Column, ...] = (
    *_CELL,
    must("policy", Kind.TEXT, "policy or diagnostic, or one of stale, span, clean"),
    may("k", Kind.INT, "K; NULL for references and rules with their own length"),
    must("operator", Kind.TEXT, "how the positions were restored", allowed=OPERATORS),
    must("arm", Kind.TEXT, "policy@k, the policy or the reference; transplants begin with transplant:"),
    must("n", Kind.INT, "retained items the figures are over"),
    must("n_of", Kind.INT, "items of the cell that were run"),
    must("n_retained", Kind.INT, "items of the cell that are retained"),
    may("mean", Kind.DOUBLE, "mean MR; NULL without items, like all that follow"),
    may("low", Kind.DOUBLE, "lower end of the 95 % bootstrap interval of the mean"),
    may("high", Kind.DOUBLE, "its upper end"),
    may("median", Kind.DOUBLE, "median MR"),
    may("ratio_of_means", Kind.DOUBLE, "mean margin gained over mean stale-to-clean gap"),
    may("ratio_low", Kind.DOUBLE, "lower end of its 95 % bootstrap interval"),
    may("ratio_high", Kind.DOUBLE, "its upper end"),
    may("flip_rate", Kind.DOUBLE, "share of items whose answer holds the new value and not the old, 0 to 1"),
    may("flip_low", Kind.DOUBLE, "lower end of its 95 % Wilson interval"),
    may("flip_high", Kind.DOUBLE, "its upper end"),
    may("kl_recovery", Kind.DOUBLE, "mean KL recovery"),
    may("mean_positions", Kind.DOUBLE, "mean number of positions chosen besides the span"),
    must("diagnostic", Kind.BOOL, "the rule sees the clean cache, the answers or the answer's place"),
    may("evidence", Kind.TEXT, "why the cell shows nothing; NULL where it is evidence"),
    *WRITTEN,
)

EDIT_CONTRAST_ROWS: tuple[Column, ...] = (
    *_CELL,
    must("policy_a", Kind.TEXT, "policy that is subtracted from"),
    must("policy_b", Kind.TEXT, "policy that is subtracted"),
    may("k", Kind.INT, "K of both; of the one that has it where the other sets its own length"),
    must("n", Kind.INT, "items both answered"),
    may("difference", Kind.DOUBLE, "mean MR difference per item, a minus b"),
    may("low", Kind.DOUBLE, "lower end of its 95 % bootstrap interval"),
    may("high", Kind.DOUBLE, "its upper end"),
    may("p", Kind.DOUBLE, "paired Wilcoxon signed-rank p"),
    may("p_holm", Kind.DOUBLE, "p after Holm over the family; NULL where it belongs to none"),
    may("family_size", Kind.INT, "comparisons in the Holm family"),
    *(
        must(f"{outcome}_{band}", Kind.INT, f"items {meaning} within a band of 0.{band}")
        for band in BANDS
        for outcome, meaning in (("wins", "where a is above b, not"), ("ties", "level"), ("losses", "below, not"))
    ),
    *WRITTEN,
)

EDIT_TRIGGER_ROWS: tuple[Column, ...] = (
    *_GROUP,
    must("kind", Kind.TEXT, "base rate of stale failure, severity model, gate or its predictor", allowed=TRIGGERS),
    must(
        "subject",
        Kind.TEXT,
        "stale for base rates; the regressor; the gate's rule, e.g. repair always; or failures sent, edits sent",
    ),
    may(
        "condition",
        Kind.TEXT,
        "direct, derived or irrelevant, against irrelevant for gates; NULL for severity",
        allowed=CONDITIONS,
    ),
    may("share", Kind.DOUBLE, "share of edits of the condition, the others being irrelevant; gates only"),
    may("n", Kind.INT, "items"),
    may("n_groups", Kind.INT, "groups of the cross-validation"),
    may(
        "rate",
        Kind.DOUBLE,
        "share of items that fail under the stale cache, or that the predictor sends to repair, 0 to 1",
    ),
    may("low", Kind.DOUBLE, "lower end of its 95 % Wilson interval"),
    may("high", Kind.DOUBLE, "its upper end"),
    may("rho", Kind.DOUBLE, "Spearman correlation of out-of-fold predictions with severity"),
    may("rho_p", Kind.DOUBLE, "its p"),
    may("r2", Kind.DOUBLE, "R2 of the out-of-fold predictions"),
    may("failures", Kind.DOUBLE, "expected failures per edit under the gate"),
    may("seconds", Kind.DOUBLE, "expected seconds of repair per edit under the gate"),
    *WRITTEN,
)

EDIT_TABLE_ROWS: tuple[Column, ...] = (
    *_GROUP,
    must("stage", Kind.TEXT, "derived on dev items, or evaluated on held-out ones", allowed=STAGES),
    must("cell", Kind.TEXT, "cell of the observable features, canonical text; all for every item"),
    must("policy", Kind.TEXT, "policy, re-prefill, or table for what the decision table chose"),
    may("k", Kind.INT, "K; NULL for re-prefill, the table and rules with their own length"),
    must("arm", Kind.TEXT, "policy@k or the policy"),
    must("chosen", Kind.BOOL, "the table chooses this arm in this cell"),
    must("n", Kind.INT, "items"),
    may("mean", Kind.DOUBLE, "mean MR"),
    may("low", Kind.DOUBLE, "lower end of its 95 % bootstrap interval"),
    may("high", Kind.DOUBLE, "its upper end"),
    may("mean_tokens", Kind.DOUBLE, "mean tokens recomputed per item, edit span included"),
    may("share_re_prefilled", Kind.DOUBLE, "share of items sent to re-prefill, 0 to 1"),
    *WRITTEN,
)
