-- Latest row per record key, failures included. Ties are broken by run and part, never by reading order.
SELECT * EXCLUDE (part)
FROM parts.probe_records
QUALIFY row_number() OVER (PARTITION BY record_key ORDER BY recorded_at DESC, run_id DESC, part DESC) = 1
