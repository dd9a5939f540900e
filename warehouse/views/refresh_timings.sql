-- Complete refreshes of equal work, latest measurement of each line; beside them the floor of the run, without the copy of
-- the cache and with it (the ratio is over the one without), and, for B = 64, the figure of the paper's Table 18 (ms),
-- with what differs in words.
SELECT
    r.experiment, r.model, r.model_fingerprint, r.dtype, r.weights, r.executor, r.attention, r.engine_version,
    r.device, r.torch_version, r.length, r.rows, r.n_intervals,
    r.causal_pairs, r.token_layers, r.pair_share_bound, r.relative_l2, r.input_unchanged, r.unselected_bit_identical,
    r.seconds_median, r.seconds_low, r.seconds_high, r.n_warmup, r.n_timed,
    greatest(r.floor_flops_seconds, r.floor_bytes_seconds) AS floor_seconds,
    CASE WHEN r.floor_flops_seconds >= r.floor_bytes_seconds THEN 'FLOPs' ELSE 'bytes' END AS floor_of,
    CASE WHEN r.floor_copy_seconds IS NOT NULL
        THEN greatest(r.floor_flops_seconds, r.floor_bytes_seconds + r.floor_copy_seconds)
    END AS floor_with_copy_seconds,
    r.seconds_median / greatest(r.floor_flops_seconds, r.floor_bytes_seconds) AS floor_ratio,
    r.peak_flops, r.bandwidth,
    p.value AS paper_ms,
    CASE WHEN p.value IS NOT NULL THEN concat(
        'paper: ', p.model, ' checkpoint, ', p.dtype, ', ', p.hardware, ', ', p.software, '; here: ', r.model, ' (',
        r.weights, ' weights), ', r.dtype, ', ', r.device, ', this project''s executors on PyTorch ', r.torch_version)
    END AS paper_differs,
    r.timed_stages, r.how, r.outcome, r.error, r.run_id, r.recorded_at
FROM parts.refresh_timing_rows r
LEFT JOIN main.published p
    ON p.experiment = 'execution-bench' AND p."table" = 18 AND p.length = r.length
    AND p.n_intervals = r.n_intervals AND p.executor = r.executor AND p.attention = r.attention AND r.rows = 64
QUALIFY row_number() OVER (
    PARTITION BY
        r.experiment, r.model_fingerprint, r.dtype, r.executor, r.attention, r.engine_version, r.device,
        r.torch_version, r.length, r.rows, r.n_intervals, r.n_warmup, r.n_timed
    ORDER BY r.recorded_at DESC, r.run_id DESC, r.part DESC
) = 1
ORDER BY ALL
