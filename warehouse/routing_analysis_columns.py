"""The columns of what the analysis of routing records stores: operating points, tests, ablations, quality."""

from cachemend.warehouse.column import Column, Kind, may, must
from cachemend.warehouse.edit_columns import WRITTEN
from cachemend.warehouse.routing_columns import PLAN, ROUTE_POOLS, SIGNAL_SOURCES

SIDES = ("request", "response")
MAP_KINDS = ("bin", "summary", "stratum", "conflict")

GROUP: tuple[Column, ...] = (
    must("experiment", Kind.TEXT, "experiment name"),
    must("cohort_digest", Kind.TEXT, "digest of the whole pool"),
    must("pool", Kind.TEXT, "which pairs", allowed=ROUTE_POOLS),
    *SIGNAL_SOURCES,
    *PLAN,
    must("diagnostic", Kind.BOOL, "the verdicts follow from the label: a ceiling, never a result"),
)
_METHOD = (
    must("method", Kind.TEXT, "safecache or a baseline"),
    must("setting", Kind.TEXT, "its operating point, canonical text"),
)
_COUNTS = (
    must("n_splits", Kind.INT, "splits the figures are over"),
    must("exposures", Kind.INT, "held-out pairs, summed over the splits"),
    must("accepted", Kind.INT, "returned cached responses, summed"),
    must("n_valid", Kind.INT, "valid ones among them"),
    must("n_invalid", Kind.INT, "invalid ones among them"),
    must("n_verified", Kind.INT, "verifier calls, summed"),
)
_RATES = (
    may("vchr", Kind.DOUBLE, "valid cache-hit rate, mean over the splits"),
    may("fh", Kind.DOUBLE, "false-hit rate, mean over the splits; 0 in a split without hits"),
)

ROUTING_POINT_ROWS: tuple[Column, ...] = (
    *GROUP,
    *_METHOD,
    may("alpha", Kind.DOUBLE, "accepted-unsafe target the setting was selected under; NULL for none"),
    may("verifier_budget", Kind.DOUBLE, "verifier calls per request allowed; NULL for none"),
    *_COUNTS,
    *_RATES,
    may("vchr_low", Kind.DOUBLE, "lower end of the 95 % cluster-bootstrap interval of the pooled VCHR"),
    may("vchr_high", Kind.DOUBLE, "its upper end"),
    may("fh_low", Kind.DOUBLE, "lower end of the 95 % cluster-bootstrap interval of the pooled FH"),
    may("fh_high", Kind.DOUBLE, "its upper end"),
    may("verifier_rate", Kind.DOUBLE, "verifier calls per request, mean over the splits"),
    may("demand_rate", Kind.DOUBLE, "calls per request before the budget, mean over the splits; routers only"),
    may("relative_cost", Kind.DOUBLE, "cost over regenerating everything, equation 12"),
    must("n_without_hits", Kind.INT, "splits in which nothing was returned"),
    must("n_abstained", Kind.INT, "splits in which no policy was feasible or certified"),
    may(
        "observations_mean",
        Kind.DOUBLE,
        "what a policy that learns online learnt from, per cached entry; NULL for others",
    ),
    may("observations_max", Kind.INT, "the most of any entry"),
    may("observations_ready", Kind.DOUBLE, "share of entries with enough to answer from the cache at all"),
    *WRITTEN,
)
ROUTING_RISK_ROWS: tuple[Column, ...] = (
    *GROUP,
    *_METHOD,
    *_COUNTS,
    may("rate", Kind.DOUBLE, "invalid over accepted, pooled"),
    must("wilson_upper", Kind.DOUBLE, "one-sided 95 % Wilson bound on it, exposures taken as independent"),
    must("exact_upper", Kind.DOUBLE, "one-sided 95 % exact bound on the same counts"),
    must("distinct_accepted", Kind.INT, "different pairs that were ever returned"),
    must("distinct_invalid", Kind.INT, "invalid ones among them"),
    must("distinct_upper", Kind.DOUBLE, "one-sided 95 % exact bound on the distinct pairs"),
    may("fh_at_10", Kind.DOUBLE, "FH if 10 % of the candidates were invalid; NULL where one label is missing"),
    may("fh_at_25", Kind.DOUBLE, "FH if 25 % of them were"),
    must("splits_over_alpha", Kind.INT, "splits whose rate is above the target; 0 without a target"),
    *WRITTEN,
)
ROUTING_TEST_ROWS: tuple[Column, ...] = (
    *GROUP,
    must("reference", Kind.TEXT, "setting of safecache that is compared"),
    *_METHOD,
    must("claim", Kind.TEXT, "superiority, or non-inferiority of VCHR with less FH", allowed=("sup", "ni+sup")),
    may("d_vchr", Kind.DOUBLE, "VCHR difference, safecache minus the comparator"),
    may("d_fh", Kind.DOUBLE, "FH difference"),
    may("p_vchr", Kind.DOUBLE, "one-sided corrected repeated-holdout p of the VCHR claim"),
    may("p_fh", Kind.DOUBLE, "one-sided corrected repeated-holdout p of less FH"),
    may("p_joint", Kind.DOUBLE, "the larger of both"),
    may("p_holm", Kind.DOUBLE, "the joint p after Holm over all comparators of the reference"),
    must("family_size", Kind.INT, "comparisons in the Holm family"),
    may("d_vchr_low", Kind.DOUBLE, "lower end of the 95 % cluster-bootstrap interval of the pooled VCHR difference"),
    may("d_vchr_high", Kind.DOUBLE, "its upper end"),
    may("d_fh_low", Kind.DOUBLE, "lower end of the 95 % cluster-bootstrap interval of the pooled FH difference"),
    may("d_fh_high", Kind.DOUBLE, "its upper end"),
    may("p_swap_vchr", Kind.DOUBLE, "one-sided label-swap randomisation p of the VCHR difference"),
    may("p_swap_fh", Kind.DOUBLE, "one-sided label-swap randomisation p of the FH difference"),
    *WRITTEN,
)
ROUTING_FAMILY_ROWS: tuple[Column, ...] = (
    *GROUP,
    *_METHOD,
    must("source", Kind.TEXT, "data set; empty for all"),
    must("family", Kind.TEXT, "kind of change; empty for all"),
    *_COUNTS,
    may("vchr", Kind.DOUBLE, "valid hits over exposures, pooled"),
    may("fh", Kind.DOUBLE, "false hits over hits, pooled; NULL without hits"),
    must("fh_upper", Kind.DOUBLE, "one-sided 95 % exact bound on it"),
    *WRITTEN,
)
ROUTING_ABLATION_ROWS: tuple[Column, ...] = (
    *GROUP,
    must("ablation", Kind.TEXT, "full, or what is left out"),
    must("setting", Kind.TEXT, "operating point it is selected at"),
    *_COUNTS,
    *_RATES,
    may("d_vchr", Kind.DOUBLE, "VCHR minus that of the full router"),
    may("d_fh", Kind.DOUBLE, "FH minus that of the full router"),
    *WRITTEN,
)
ROUTING_FROZEN_ROWS: tuple[Column, ...] = (
    *GROUP,
    must(
        "exchanged", Kind.TEXT, "what is exchanged at test: nothing, the fate of verified candidates, or the verdicts"
    ),
    must("setting", Kind.TEXT, "operating point whose policies are replayed"),
    *_COUNTS,
    *_RATES,
    may("d_vchr", Kind.DOUBLE, "VCHR minus that of the policies as selected"),
    may("d_fh", Kind.DOUBLE, "FH minus that of the policies as selected"),
    *WRITTEN,
)
ROUTING_ORDER_ROWS: tuple[Column, ...] = (
    *GROUP,
    must("setting", Kind.TEXT, "operating point"),
    must("request_order", Kind.TEXT, "canonical, reverse or a fixed permutation"),
    *_COUNTS,
    *_RATES,
    may("verifier_rate", Kind.DOUBLE, "verifier calls per request, mean over the splits"),
    must("over_budget", Kind.INT, "splits that spent more calls than allowed"),
    *WRITTEN,
)
VERIFIER_QUALITY_ROWS: tuple[Column, ...] = (
    *GROUP,
    must("region", Kind.TEXT, "pairs judged: all, or the verification region of a setting"),
    must("n", Kind.INT, "verdicts"),
    must("ta", Kind.INT, "valid, accepted"),
    must("tr", Kind.INT, "invalid, rejected"),
    must("fa", Kind.INT, "invalid, accepted"),
    must("fr", Kind.INT, "valid, rejected"),
    may("agreement", Kind.DOUBLE, "share of verdicts that agree with the label"),
    may("p_chance", Kind.DOUBLE, "one-sided p that it accepts valid pairs no more often than invalid ones"),
    may("flag", Kind.TEXT, "constant or chance-level; NULL where neither"),
    must("n_malformed", Kind.INT, "answers that are none of the three words"),
    must("n_failed", Kind.INT, "calls without an answer, overflow included"),
    *WRITTEN,
)
SIGNAL_ROWS: tuple[Column, ...] = (
    *GROUP,
    must("signal", Kind.TEXT, "similarity (reversed), d_match, u_match, h, h_rule, h_ctx, h_own, d, u"),
    must("source", Kind.TEXT, "data set; empty for all"),
    must("n", Kind.INT, "held-out exposures, summed over the splits"),
    must("n_invalid", Kind.INT, "invalid ones"),
    may("auroc", Kind.DOUBLE, "area under the ROC curve for ranking invalid reuse"),
    may("auroc_low", Kind.DOUBLE, "lower end of its 95 % cluster-bootstrap interval"),
    may("auroc_high", Kind.DOUBLE, "its upper end"),
    may("auprc", Kind.DOUBLE, "area under the precision-recall curve"),
    *WRITTEN,
)
ROUTING_PROBE_ROWS: tuple[Column, ...] = (
    must("experiment", Kind.TEXT, "experiment name"),
    must("cohort_digest", Kind.TEXT, "digest of the whole pool"),
    must("pool", Kind.TEXT, "which pairs", allowed=ROUTE_POOLS),
    must("source", Kind.TEXT, "data set"),
    must("side", Kind.TEXT, "all that the probe sees: the new request, or the cached response", allowed=SIDES),
    must("n", Kind.INT, "pairs"),
    may("auroc", Kind.DOUBLE, "area under the ROC curve of telling valid pairs; NULL where clusters make no folds"),
    may("within_target", Kind.BOOL, "it is at most 0.60; if not, the side alone tells the label"),
    *WRITTEN,
)
ROUTING_MAP_ROWS: tuple[Column, ...] = (
    *GROUP,
    must("kind", Kind.TEXT, "bin of the risk map, its summary, stratum, or conflicts", allowed=MAP_KINDS),
    must("name", Kind.TEXT, "which bin or stratum"),
    must("n", Kind.INT, "exposures"),
    may("predicted", Kind.DOUBLE, "mean K"),
    may("observed", Kind.DOUBLE, "share of invalid ones"),
    may("ece", Kind.DOUBLE, "expected calibration error; summary only"),
    may("brier", Kind.DOUBLE, "Brier score; summary only"),
    *WRITTEN,
)
ROUTING_STRESS_ROWS: tuple[Column, ...] = (
    *GROUP,
    *_METHOD,
    must("calibrated_on", Kind.TEXT, "pool whose first split gave policies and cutoffs"),
    must("n", Kind.INT, "stress inputs"),
    must("n_hits", Kind.INT, "inputs for which a cached response was returned, all of them unsafe"),
    must("n_verified", Kind.INT, "verifier calls"),
    may("hit_rate", Kind.DOUBLE, "hits over inputs"),
    must("upper", Kind.DOUBLE, "one-sided 95 % exact bound on it"),
    *WRITTEN,
)
ROUTING_CERTIFIED_ROWS: tuple[Column, ...] = (
    *GROUP,
    *_METHOD,
    must("procedure", Kind.TEXT, "learn-then-test, e-values or risk-control"),
    must("alpha", Kind.DOUBLE, "risk that is certified"),
    may("delta", Kind.DOUBLE, "chance of a false certificate; NULL where an expectation is bounded"),
    must("n_splits", Kind.INT, "splits tried"),
    must("n_abstained", Kind.INT, "splits that certified nothing"),
    may("mean_clusters", Kind.DOUBLE, "calibration clusters per split"),
    may("certifiable", Kind.DOUBLE, "smallest alpha that many clusters can certify without an error"),
    may("vchr", Kind.DOUBLE, "valid cache-hit rate, mean over the splits, 0 where it abstained"),
    may("fh", Kind.DOUBLE, "false-hit rate, mean over the splits; 0 in a split without hits"),
    may("d_vchr", Kind.DOUBLE, "VCHR minus that of the rule without a certificate at alpha = 0.025, B = 0.3"),
    may(
        "n_violations",
        Kind.INT,
        "test splits whose FH is above alpha; its pairs weigh the same, unlike those of the certified risk: no proof "
        "against a certificate. NULL where an expectation is bounded",
    ),
    *WRITTEN,
)
