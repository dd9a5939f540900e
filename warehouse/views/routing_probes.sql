-- Whether one side of a pair alone tells the label: a trace of how the pairs were made, by source.
-- Of several probes of one pool the last one alone: a limited run has other pairs.
SELECT * EXCLUDE (part)
FROM parts.routing_probe_rows
QUALIFY row_number() OVER (
    PARTITION BY
        experiment, cohort_digest, pool, source, side
    ORDER BY recorded_at DESC, run_id DESC, part DESC
) = 1
AND run_id = first_value(run_id) OVER (
    PARTITION BY
        experiment, cohort_digest, pool
    ORDER BY recorded_at DESC, run_id DESC, part DESC
)
