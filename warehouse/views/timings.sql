-- Seconds per stage of every successful record, one row per stage that was measured.
SELECT record_key, run_id, case_id, model, arm, component, seconds
FROM (
    SELECT
        record_key, run_id, case_id, model, arm,
        t_prefill AS prefill, t_signal AS signal, t_allocate AS allocate, t_shift AS shift,
        t_refresh AS refresh, t_query AS query, t_decode AS decode, latency
    FROM main.records
    WHERE outcome = 'ok'
)
UNPIVOT (seconds FOR component IN (prefill, signal, allocate, shift, refresh, query, decode, latency))
