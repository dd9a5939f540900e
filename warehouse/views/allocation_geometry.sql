-- The paper's Table 12, measured: one budget spent by five rules, named as there. One row per settings, stratum,
-- budget and rule; `arm` joins to `published`.
-- Executor bottom-right is left out: its rows see tokens after their own, so it repairs nothing.
SELECT
    experiment, cohort_digest, stratum, model, model_fingerprint, dtype, score_rule, decoding,
    executor, attention, engine_version, budget, allocator, role, arm,
    n, n_of, n_failed, n_correct, em_percent, mean_n_intervals
FROM main.niah_sweep
JOIN (VALUES
    (1, 'sur', 'SUR'),
    (2, 'dense-tokens', 'Same-score tokens'),
    (3, 'max-relevance-window', 'Single relevance window'),
    (4, 'bm25-units', 'Same-unit BM25'),
    (5, 'random-units', 'Random units')
) AS rules(place, allocator, role) USING (allocator)
WHERE executor <> 'bottom-right'
ORDER BY
    experiment, cohort_digest, stratum, model, model_fingerprint, dtype, score_rule, decoding,
    executor, attention, engine_version, budget, place
