-- One row per experiment, cohort and edited case: the latest, but one with texts where any run stored them.
SELECT * EXCLUDE (part)
FROM parts.edit_cases
QUALIFY row_number() OVER (
    PARTITION BY experiment, cohort_digest, case_digest
    ORDER BY context_text IS NULL, token_stops IS NULL, recorded_at DESC, run_id DESC, part DESC
) = 1
