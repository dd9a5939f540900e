"""The columns of what is measured about response reuse: pairs with their signals and verdicts, and replayed decisions.

Terms are those of "Beyond Query Similarity: Safety-Conditioned Cache Routing": VCHR is the share of requests answered
by a valid reuse, FH the share of invalid ones among the reuses (section 4.1). Rates are fractions.
"""

from cachemend.warehouse.column import Column, Kind, may, must
from cachemend.warehouse.columns import OUTCOMES
from cachemend.warehouse.edit_columns import WRITTEN

ROUTE_POOLS = ("seed", "reconstruction", "hard", "log", "stress")
VERDICTS = ("VALID", "INVALID", "UNCERTAIN", "MALFORMED", "FAILED", "OVERFLOW")
ACTIONS = ("reuse", "verify", "regenerate")

_POOL = (
    must("experiment", Kind.TEXT, "experiment name, e.g. response-routing"),
    must("cohort_digest", Kind.TEXT, "digest of the whole pool, also of a limited run"),
    must("pool", Kind.TEXT, "which pairs", allowed=ROUTE_POOLS),
)
SIGNAL_SOURCES: tuple[Column, ...] = (
    must("encoder", Kind.TEXT, "sentence encoder of the similarity"),
    must("lexicon_digest", Kind.TEXT, "SHA-256 of the lexicon file that conditions are extracted with"),
    must("verifier", Kind.TEXT, "whose verdicts: model fingerprint, endpoint, recorded file or label-oracle"),
    must("language_model", Kind.TEXT, "model fingerprint behind query_filter and likelihood; none where not asked"),
    must("engine_version", Kind.INT, "raised by hand when results may change"),
)
PLAN: tuple[Column, ...] = (
    must("split_plan", Kind.TEXT, "number, fractions and seed of the splits, canonical text"),
    must("own_guards", Kind.BOOL, "guards beyond the paper's (negation, number, role swap) count as conflicts"),
)

ROUTE_RECORDS: tuple[Column, ...] = (
    must("record_key", Kind.TEXT, "SHA-256 of the identity columns: one key, one result"),
    *_POOL,
    must("case_digest", Kind.TEXT, "digest of the pair"),
    must("candidate_digest", Kind.TEXT, "digest of the five texts alone, without the label: what order and draws hash"),
    must("case_id", Kind.TEXT, "readable name of the pair"),
    must("source", Kind.TEXT, "data set the pair was built from"),
    must("family", Kind.TEXT, "kind of change; empty where unknown"),
    must("cluster", Kind.TEXT, "source object; splits never separate a cluster"),
    must("rule", Kind.TEXT, "construction rule that gave the label"),
    must("entry_digest", Kind.TEXT, "digest of the cached request, response and context"),
    must("valid", Kind.BOOL, "the label: returning the cached response is right"),
    *SIGNAL_SOURCES,
    must("lexicon_version", Kind.TEXT, "version of the lexicon file"),
    must("verifier_model", Kind.TEXT, "verifier as the user named it"),
    may("similarity", Kind.DOUBLE, "S, cosine of the two requests"),
    may("d_match", Kind.DOUBLE, "raw condition mismatch, equation 1"),
    may("u_match", Kind.DOUBLE, "matching uncertainty, equation 3"),
    may("h_rule", Kind.BOOL, "a rule on conditions found a contradiction"),
    may("h_ctx", Kind.BOOL, "a rule on the raw inputs found one"),
    may("h_own", Kind.BOOL, "one of this project's further guards found one"),
    may("n_cache", Kind.INT, "conditions of the cached answer"),
    may("n_request", Kind.INT, "conditions of the new request"),
    may("fired", Kind.TEXTS, "names of the rules that fired"),
    may("verdict", Kind.TEXT, "what the verifier said; NULL where no policy would ask", allowed=VERDICTS),
    may("query_filter", Kind.TEXT, "what it said of the two requests alone (Cache-Me); NULL where not asked", VERDICTS),
    may("likelihood", Kind.DOUBLE, "mean log-likelihood of the response after the new request, nats per token"),
    may("dialogue_similarity", Kind.DOUBLE, "cosine of the mean-pooled dialogues (ContextCache)"),
    may("same_version", Kind.BOOL, "version markers of the contexts are compatible (GroundedCache)"),
    may("evidence_overlap", Kind.DOUBLE, "Jaccard index of the contexts' passages (GroundedCache)"),
    may("response_support", Kind.DOUBLE, "share of the response's words in the new context (GroundedCache)"),
    may("same_query", Kind.BOOL, "the two requests are the same text"),
    may("q_cache", Kind.TEXT, "cached request; NULL unless texts are stored, like the four that follow"),
    may("r_cache", Kind.TEXT, "cached response"),
    may("context_cache", Kind.TEXT, "context of the cached request"),
    may("q_probe", Kind.TEXT, "new request"),
    may("context_probe", Kind.TEXT, "context of the new request"),
    may("explanation", Kind.JSON, "conditions, matches and rules with what they were read from; NULL without texts"),
    must("worker", Kind.TEXT, "worker that computed the row"),
    *WRITTEN,
    must("outcome", Kind.TEXT, "ok, or how the pair failed", allowed=OUTCOMES),
    may("error", Kind.TEXT, "why it failed; NULL exactly when ok"),
)

ROUTE_EXPOSURES: tuple[Column, ...] = (
    *_POOL,
    *SIGNAL_SOURCES,
    *PLAN,
    must("method", Kind.TEXT, "safecache or a baseline"),
    must("setting", Kind.TEXT, "its operating point, canonical text"),
    must("split", Kind.INT, "repeated split, from 0"),
    must("case_digest", Kind.TEXT, "digest of the pair"),
    must("cluster", Kind.TEXT, "source object"),
    must("valid", Kind.BOOL, "the label"),
    must("action", Kind.TEXT, "what was decided after the budget", allowed=ACTIONS),
    must("accepted", Kind.BOOL, "the cached response was returned"),
    *WRITTEN,
)
