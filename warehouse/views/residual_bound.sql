-- Proposition 14.1 on real layers: error and bound of every probed head and row, by layer and (layer NULL) over all.
-- Layer 0 reads embeddings, which no repair changes: what it shows as error is the rounding of rotations. Over all, it
-- counts in n_probed and n_violated and in no other figure. Tightness is bound over error, 1 at best; rows without error
-- have none. Rank correlations are Spearman's, ties by their average rank, of the bound and of its value term alone with
-- the error. Cases with a violation are failures of the measurement, and counted here all the same. reproduced, over all
-- only, is the worst deviation of the probe from what the refresh saw; a case beyond its limit is in n_of and reproduced
-- and in no other figure.
WITH recorded AS (
    SELECT
        {
            'experiment': experiment, 'cohort_digest': cohort_digest, 'stratum': stratum, 'model': model,
            'model_fingerprint': model_fingerprint, 'dtype': dtype, 'decoding': decoding, 'score_rule': score_rule,
            'attention': attention, 'engine_version': engine_version, 'path': path, 'budget': budget,
            'executor': executor, 'arm': arm
        } AS settings,
        *
    FROM main.bound_records
),
probed AS (
    SELECT
        settings, case_digest, unnest(layer) AS layer, unnest(error_norm) AS error_norm,
        unnest(value_term) AS value_term, unnest(bound_measured) AS bound_measured, unnest(bound) AS bound,
        unnest(violated) AS violated
    FROM recorded
    WHERE n_probed IS NOT NULL
),
shown AS (
    SELECT *, TRUE AS figures FROM probed
    UNION ALL BY NAME
    SELECT * REPLACE (CAST(NULL AS INTEGER) AS layer), layer > 0 AS figures FROM probed
),
ranked AS (
    SELECT
        *,
        rank() OVER by_error + (count(*) OVER (PARTITION BY settings, layer, figures, error_norm) - 1) / 2 AS error_rank,
        rank() OVER by_value + (count(*) OVER (PARTITION BY settings, layer, figures, value_term) - 1) / 2 AS value_rank,
        rank() OVER by_bound + (count(*) OVER (PARTITION BY settings, layer, figures, bound) - 1) / 2 AS bound_rank
    FROM shown
    WINDOW
        by_error AS (PARTITION BY settings, layer, figures ORDER BY error_norm),
        by_value AS (PARTITION BY settings, layer, figures ORDER BY value_term),
        by_bound AS (PARTITION BY settings, layer, figures ORDER BY bound)
    UNION ALL BY NAME
    -- One line per record, so that a case without figures is counted too.
    SELECT settings, case_digest AS recorded_case, reproduced FROM recorded
),
summed AS (
    SELECT
        settings, layer,
        count(DISTINCT case_digest)::INTEGER AS n_cases,
        if(layer IS NULL, count(DISTINCT recorded_case)::INTEGER, NULL) AS n_of,
        count(violated) AS n_probed,
        coalesce(sum(violated), 0)::BIGINT AS n_violated,
        max(reproduced) AS reproduced,
        median(error_norm) FILTER (figures) AS error_median,
        max(error_norm) FILTER (figures) AS error_high,
        min(bound / nullif(error_norm, 0)) FILTER (figures) AS tightness_low,
        quantile_cont(bound / nullif(error_norm, 0), 0.05) FILTER (figures) AS tightness_q05,
        median(bound / nullif(error_norm, 0)) FILTER (figures) AS tightness_median,
        quantile_cont(bound / nullif(error_norm, 0), 0.95) FILTER (figures) AS tightness_q95,
        median(bound_measured / nullif(error_norm, 0)) FILTER (figures) AS tightness_measured_median,
        median(value_term / nullif(error_norm, 0)) FILTER (figures) AS value_term_ratio_median,
        corr(bound_rank, error_rank) FILTER (figures) AS bound_rank_correlation,
        corr(value_rank, error_rank) FILTER (figures) AS value_term_rank_correlation
    FROM ranked
    GROUP BY settings, layer
)
SELECT unnest(settings), * EXCLUDE (settings)
FROM summed
ORDER BY ALL
