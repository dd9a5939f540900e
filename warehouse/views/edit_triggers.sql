-- When to repair: base rates of stale failure, severity models, gates and their predictor; as last analysed.
SELECT * EXCLUDE (part)
FROM parts.edit_trigger_rows
-- Earlier versions pooled direct and derived edits in one gate.
WHERE kind <> 'gate' OR condition IS NOT NULL
QUALIFY row_number() OVER (
    PARTITION BY
        experiment, cohort_digest, executor, attention, model_fingerprint, dtype, decoding, score_rule, engine_version,
        split,
        kind, subject, condition, share
    ORDER BY recorded_at DESC, run_id DESC, part DESC
) = 1
