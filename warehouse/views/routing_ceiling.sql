-- The same with a verifier that knows the label: a ceiling for any verifier, not a result.
-- Of several analyses of one group and plan the last one alone: their rows are not of the same exposures.
SELECT * EXCLUDE (part)
FROM parts.routing_point_rows
WHERE diagnostic OR verifier = 'label-oracle'
QUALIFY row_number() OVER (
    PARTITION BY
        experiment, cohort_digest, pool, encoder, lexicon_digest, verifier, language_model, engine_version,
        split_plan, own_guards,
        method, setting
    ORDER BY recorded_at DESC, run_id DESC, part DESC
) = 1
AND run_id = first_value(run_id) OVER (
    PARTITION BY
        experiment, cohort_digest, pool, encoder, lexicon_digest, verifier, language_model, engine_version,
        split_plan, own_guards
    ORDER BY recorded_at DESC, run_id DESC, part DESC
)
