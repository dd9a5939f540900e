-- Frozen policies with verified candidates reused or regenerated, or with another verifier's verdicts (paper, Figure 2
-- and Table 8).
SELECT * EXCLUDE (part)
FROM parts.routing_frozen_rows
QUALIFY row_number() OVER (
    PARTITION BY
        experiment, cohort_digest, pool, encoder, lexicon_digest, verifier, language_model, engine_version,
        split_plan, own_guards,
        setting, exchanged
    ORDER BY recorded_at DESC, run_id DESC, part DESC
) = 1
AND run_id = first_value(run_id) OVER (
    PARTITION BY
        experiment, cohort_digest, pool, encoder, lexicon_digest, verifier, language_model, engine_version,
        split_plan, own_guards
    ORDER BY recorded_at DESC, run_id DESC, part DESC
)
