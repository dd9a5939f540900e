-- The decision table: arms per cell on dev items, and its evaluation on held-out ones; as last analysed.
SELECT * EXCLUDE (part)
FROM parts.edit_table_rows
QUALIFY row_number() OVER (
    PARTITION BY
        experiment, cohort_digest, executor, attention, model_fingerprint, dtype, decoding, score_rule, engine_version,
        split,
        stage, cell, policy, k
    ORDER BY recorded_at DESC, run_id DESC, part DESC
) = 1
