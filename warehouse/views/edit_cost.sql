-- Refresh of the span and K positions, with or without a copy of the cache, beside a re-prefill timed in the same run:
-- ratio of the medians, the token-layer ratio, and how far a refresh without a copy is above its own compute floor,
-- which has none either (NULL with a copy). A re-prefill uses no refresh executor; one timed under the refresh's own
-- executor comes first.
WITH re_prefills AS (
    SELECT
        run_id, experiment, model_fingerprint, dtype, attention, engine_version, device, length, executor,
        min(seconds_median) AS seconds
    FROM parts.edit_timings
    WHERE what = 're-prefill'
    GROUP BY ALL
)
SELECT
    r.experiment, r.model, r.model_fingerprint, r.dtype, r.executor, r.attention, r.engine_version, r.device,
    r.length, r.k, r.copy, r.n_tokens, r.span, r.n_warmup, r.n_timed,
    r.seconds_median AS refresh_seconds,
    r.seconds_low AS refresh_low,
    r.seconds_high AS refresh_high,
    p.seconds AS re_prefill_seconds,
    p.seconds / r.seconds_median AS ratio,
    r.token_layer_ratio,
    r.floor_seconds,
    CASE WHEN NOT r.copy THEN r.seconds_median / r.floor_seconds END AS floor_ratio,
    r.run_id, r.recorded_at
FROM parts.edit_timings r
LEFT JOIN re_prefills p
    ON p.run_id = r.run_id AND p.experiment = r.experiment AND p.model_fingerprint = r.model_fingerprint
    AND p.dtype = r.dtype AND p.attention = r.attention AND p.engine_version = r.engine_version
    AND p.device = r.device AND p.length = r.length
WHERE r.what = 'refresh'
QUALIFY row_number() OVER (
    PARTITION BY
        r.experiment, r.model_fingerprint, r.dtype, r.executor, r.attention, r.engine_version, r.device, r.length,
        r.k, r.copy
    ORDER BY r.recorded_at DESC, r.run_id DESC, r.part DESC, p.executor <> r.executor, p.executor
) = 1
ORDER BY ALL
