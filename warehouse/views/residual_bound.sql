-- Proposition 14.1 on real layers: error and bound of every probed head and row, by layer and (layer NULL) over all.
-- Tightness is bound over error, 1 at best; rows without error have none. Rank correlations are Spearman's, ties by
-- their first rank, of the bound and of its value term alone with the error. Cases with a violation are failures of the
-- measurement, and counted here all the same.
WITH probed AS (
    SELECT
        {
            'experiment': experiment, 'cohort_digest': cohort_digest, 'stratum': stratum, 'model': model,
            'model_fingerprint': model_fingerprint, 'dtype': dtype, 'decoding': decoding, 'score_rule': score_rule,
            'attention': attention, 'engine_version': engine_version, 'path': path, 'budget': budget,
            'executor': executor, 'arm': arm
        } AS settings,
        case_digest, reproduced, unnest(layer) AS layer, unnest(error_norm) AS error_norm,
        unnest(value_term) AS value_term, unnest(bound_measured) AS bound_measured, unnest(bound) AS bound,
        unnest(violated) AS violated
    FROM main.bound_records
    WHERE n_probed IS NOT NULL
),
ranked AS (
    SELECT
        *,
        rank() OVER (PARTITION BY settings, layer ORDER BY error_norm) AS error_rank,
        rank() OVER (PARTITION BY settings, layer ORDER BY value_term) AS value_rank,
        rank() OVER (PARTITION BY settings, layer ORDER BY bound) AS bound_rank
    FROM (
        SELECT * FROM probed
        UNION ALL BY NAME
        SELECT * REPLACE (CAST(NULL AS INTEGER) AS layer) FROM probed
    )
),
summed AS (
    SELECT
        settings, layer,
        count(DISTINCT case_digest)::INTEGER AS n_cases,
        count(*) AS n_probed,
        sum(violated)::BIGINT AS n_violated,
        max(reproduced) AS reproduced,
        median(error_norm) AS error_median,
        max(error_norm) AS error_high,
        min(bound / nullif(error_norm, 0)) AS tightness_low,
        quantile_cont(bound / nullif(error_norm, 0), 0.05) AS tightness_q05,
        median(bound / nullif(error_norm, 0)) AS tightness_median,
        quantile_cont(bound / nullif(error_norm, 0), 0.95) AS tightness_q95,
        median(bound_measured / nullif(error_norm, 0)) AS tightness_measured_median,
        median(value_term / nullif(error_norm, 0)) AS value_term_ratio_median,
        corr(bound_rank, error_rank) AS bound_rank_correlation,
        corr(value_rank, error_rank) AS value_term_rank_correlation
    FROM ranked
    GROUP BY ALL
)
SELECT unnest(settings), * EXCLUDE (settings)
FROM summed
ORDER BY ALL
