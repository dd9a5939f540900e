-- When to repair: base rates of stale failure, severity models, gates; as last analysed.
SELECT * EXCLUDE (part)
FROM parts.edit_trigger_rows
QUALIFY row_number() OVER (
    PARTITION BY
        experiment, cohort_digest, executor, attention, model_fingerprint, dtype, decoding, score_rule, engine_version,
        split,
        kind, subject, condition, share
    ORDER BY recorded_at DESC, run_id DESC, part DESC
) = 1
