-- Paired contrasts between policies of each cell, as last analysed.
SELECT * EXCLUDE (part)
FROM parts.edit_contrast_rows
QUALIFY row_number() OVER (
    PARTITION BY
        experiment, cohort_digest, executor, attention, model_fingerprint, dtype, decoding, score_rule, engine_version,
        split, condition, distance, family,
        policy_a, policy_b, k
    ORDER BY recorded_at DESC, run_id DESC, part DESC
) = 1
