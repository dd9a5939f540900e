-- Repair after an in-place edit: the latest row per item and arm, failures included.
SELECT * EXCLUDE (part)
FROM parts.edit_records
QUALIFY row_number() OVER (PARTITION BY record_key ORDER BY recorded_at DESC, run_id DESC, part DESC) = 1
