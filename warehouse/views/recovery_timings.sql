-- Recovery of real contexts, means with equal weight per context over the latest measurement of each; beside them the
-- floor of the refresh (for a reference, of its operator) without any copy of the cache, and with the rows that the
-- recovery copies; the ratio is the refresh over the floor without. Then the figure of the paper's Table 20 (ms), with what
-- differs in words. A mean over the contexts of one cohort; ratio columns say how many times longer Replay and a
-- re-prefill take than this line.
WITH latest AS (
    SELECT *
    FROM parts.recovery_timing_rows
    QUALIFY row_number() OVER (
        PARTITION BY
            experiment, model_fingerprint, dtype, executor, attention, engine_version, device, torch_version, length,
            cohort_digest, case_digest, method, budget, n_warmup, n_timed
        ORDER BY recorded_at DESC, run_id DESC, part DESC
    ) = 1
),
means AS (
    SELECT
        experiment, any_value(model) AS model, model_fingerprint, dtype, any_value(weights) AS weights, executor,
        attention, engine_version, device, torch_version, cohort_digest, method, budget, n_warmup, n_timed,
        count(*) FILTER (outcome = 'ok') AS n_contexts,
        count(*) AS n_of,
        avg(n_tokens) AS mean_tokens,
        avg(suffix_length) AS mean_suffix,
        avg(rows) AS mean_rows,
        avg(n_intervals) AS mean_intervals,
        avg(refresh_mean) AS refresh_seconds,
        avg(seconds_mean) AS recovery_seconds,
        min(seconds_low) AS recovery_low,
        max(seconds_high) AS recovery_high,
        avg(greatest(floor_flops_seconds, floor_bytes_seconds)) AS floor_seconds,
        avg(greatest(floor_flops_seconds, floor_bytes_seconds + floor_copy_seconds))
            FILTER (floor_copy_seconds IS NOT NULL) AS floor_with_copy_seconds,
        any_value(timed_stages) AS timed_stages,
        any_value(how) AS how,
        max(error) AS error,
        max(run_id) AS run_id,
        max(recorded_at) AS recorded_at
    FROM latest
    GROUP BY ALL
),
beside AS (
    SELECT
        method, executor, attention, budget, any_value(model) AS model, any_value(dtype) AS dtype,
        any_value(hardware) AS hardware, any_value(software) AS software,
        max(value) FILTER (metric = 'refresh_ms') AS refresh_ms,
        max(value) FILTER (metric = 'recovery_ms') AS recovery_ms
    FROM main.published
    WHERE experiment = 'execution-bench' AND "table" = 20
    GROUP BY ALL
)
SELECT
    m.* EXCLUDE (timed_stages, how, error, run_id, recorded_at),
    m.refresh_seconds / m.floor_seconds AS floor_ratio,
    max(m.recovery_seconds) FILTER (m.method = 'replay') OVER same / m.recovery_seconds AS replay_ratio,
    max(m.recovery_seconds) FILTER (m.method = 're-prefill') OVER same / m.recovery_seconds AS re_prefill_ratio,
    p.refresh_ms AS paper_refresh_ms,
    p.recovery_ms AS paper_recovery_ms,
    CASE WHEN p.recovery_ms IS NOT NULL THEN concat(
        'paper: four inputs of QA data sets, ', p.model, ' checkpoint, ', p.dtype, ', ', p.hardware, ', ', p.software,
        ', the refresh of a repair with the copy of its output; here: Erasing-NIAH contexts, ', m.model, ' (',
        m.weights, ' weights), ', m.dtype, ', ', m.device, ', this project''s executors on PyTorch ', m.torch_version,
        ', the refresh of a repair in place on the copy that Shift makes')
    END AS paper_differs,
    m.timed_stages, m.how, m.error, m.run_id, m.recorded_at
FROM means m
LEFT JOIN beside p
    ON p.method = m.method AND p.executor = m.executor AND p.attention = m.attention
    AND p.budget IS NOT DISTINCT FROM m.budget
WINDOW same AS (
    PARTITION BY
        m.experiment, m.model_fingerprint, m.dtype, m.engine_version, m.device, m.torch_version, m.cohort_digest,
        m.n_warmup, m.n_timed
)
ORDER BY ALL
