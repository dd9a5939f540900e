-- Erasing-NIAH: one row per arm within one model, cohort, stratum and set of settings.
-- n rows of n_of cases; a failed row counts as wrong; means are over successful rows.
WITH sweep AS (
    SELECT *, count(DISTINCT case_digest) OVER (
        PARTITION BY experiment, cohort_digest, stratum, model, model_fingerprint, dtype, score_rule, decoding,
            executor, attention, engine_version
    ) AS n_of
    FROM main.records
    WHERE experiment = 'erasing-niah'
)
SELECT
    experiment, cohort_digest, stratum, model, model_fingerprint, dtype, score_rule, decoding,
    executor, attention, engine_version, allocator, budget, arm, auxiliary,
    count(*)::INTEGER AS n,
    n_of::INTEGER AS n_of,
    (count(*) FILTER (outcome <> 'ok'))::INTEGER AS n_failed,
    (count(*) FILTER (outcome = 'ok' AND em = 1))::INTEGER AS n_correct,
    100.0::DOUBLE * (count(*) FILTER (outcome = 'ok' AND em = 1)) / count(*) AS em_percent,
    avg(gold_nll) FILTER (outcome = 'ok') AS mean_gold_nll,
    avg(tv_to_clean) FILTER (outcome = 'ok') AS mean_tv_to_clean,
    median(nr_tv) FILTER (outcome = 'ok') AS median_nr_tv,
    (count(nr_tv) FILTER (outcome = 'ok'))::INTEGER AS n_nr_tv,
    avg(deleted_logprob) FILTER (outcome = 'ok') AS mean_deleted_logprob,
    avg(leakage) FILTER (outcome = 'ok') AS mean_leakage,
    avg(n_intervals) FILTER (outcome = 'ok') AS mean_n_intervals,
    avg(len(positions)) FILTER (outcome = 'ok') AS mean_positions
FROM sweep
GROUP BY ALL
ORDER BY ALL
