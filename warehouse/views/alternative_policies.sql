-- The paper's Table 13, measured: SUR beside four policies with other signals, named as there. One row per settings,
-- stratum, budget and policy; `arm` joins to `published`.
-- Executor bottom-right is left out: its rows see tokens after their own, so it repairs nothing.
SELECT
    experiment, cohort_digest, stratum, model, model_fingerprint, dtype, score_rule, decoding,
    executor, attention, engine_version, budget, allocator, role, arm,
    n, n_of, n_failed, n_correct, em_percent, mean_n_intervals
FROM main.niah_sweep
JOIN (VALUES
    (1, 'sur', 'SUR'),
    (2, 'prophetkv', 'ProphetKV-Adapted'),
    (3, 'infoflow', 'InfoFlow-Motivated'),
    (4, 'cache-craft', 'Cache-Craft-Adapted'),
    (5, 'cacheblend', 'CacheBlend-Adapted')
) AS rules(place, allocator, role) USING (allocator)
WHERE executor <> 'bottom-right'
ORDER BY
    experiment, cohort_digest, stratum, model, model_fingerprint, dtype, score_rule, decoding,
    executor, attention, engine_version, budget, place
