-- Margin recovery and Flip per arm of each cell, as last analysed. Family NULL holds all wordings.
SELECT * EXCLUDE (part)
FROM parts.edit_recovery_rows
QUALIFY row_number() OVER (
    PARTITION BY
        experiment, cohort_digest, executor, attention, model_fingerprint, dtype, decoding, score_rule, engine_version,
        split, condition, distance, family,
        policy, k, operator
    ORDER BY recorded_at DESC, run_id DESC, part DESC
) = 1
