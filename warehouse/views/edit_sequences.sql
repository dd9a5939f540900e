-- Several edits of one context: the latest row per case, mode, step, probe and arm, failures included.
SELECT * EXCLUDE (part)
FROM parts.edit_sequences
QUALIFY row_number() OVER (PARTITION BY record_key ORDER BY recorded_at DESC, run_id DESC, part DESC) = 1
