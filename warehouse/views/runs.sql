-- Latest row of every run; its end wins over its start.
SELECT * EXCLUDE (part)
FROM parts.runs
QUALIFY row_number() OVER (
    PARTITION BY run_id ORDER BY recorded_at DESC, status = 'running', status, part DESC
) = 1
