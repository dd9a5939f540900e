-- Response reuse: the latest row per pair, encoder, lexicon and verifier, failures included.
SELECT * EXCLUDE (part)
FROM parts.route_records
QUALIFY row_number() OVER (
    PARTITION BY record_key
    ORDER BY recorded_at DESC, run_id DESC, part DESC
) = 1
