-- What each method decided for each held-out pair of each split, as last replayed.
-- Of several analyses of one group and plan the last one alone: their rows are not of the same exposures.
SELECT * EXCLUDE (part)
FROM parts.route_exposures
QUALIFY row_number() OVER (
    PARTITION BY
        experiment, cohort_digest, pool, encoder, lexicon_digest, verifier, language_model, engine_version,
        split_plan, own_guards,
        method, setting, split, case_digest
    ORDER BY recorded_at DESC, run_id DESC, part DESC
) = 1
AND run_id = first_value(run_id) OVER (
    PARTITION BY
        experiment, cohort_digest, pool, encoder, lexicon_digest, verifier, language_model, engine_version,
        split_plan, own_guards
    ORDER BY recorded_at DESC, run_id DESC, part DESC
)
