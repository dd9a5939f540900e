-- The decision table: arms per cell on dev items, and its evaluation on held-out ones; as last analysed.
-- An evaluation that is older than the newest derivation was one of another table, and is not shown.
SELECT * EXCLUDE (part)
FROM parts.edit_table_rows
QUALIFY row_number() OVER (
    PARTITION BY
        experiment, cohort_digest, executor, attention, model_fingerprint, dtype, decoding, score_rule, engine_version,
        split,
        stage, cell, policy, k
    ORDER BY recorded_at DESC, run_id DESC, part DESC
) = 1 AND (stage = 'derived' OR recorded_at >= coalesce(
    max(recorded_at) FILTER (WHERE stage = 'derived') OVER (
        PARTITION BY
            experiment, executor, attention, model_fingerprint, dtype, decoding, score_rule, engine_version
    ),
    recorded_at
))
