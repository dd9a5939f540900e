-- An upper bound on the repair locality of every case (paper Eq. 6): the share of the suffix that a greedy search over
-- SUR's ranking found to be enough for an exact answer; infinite where it found nothing. The true minimum, over all sets
-- of positions, is at most that.
SELECT
    records.experiment, records.cohort_digest, named.cohort, stratum, model, model_fingerprint, dtype, score_rule,
    decoding, executor, attention, engine_version, case_digest, case_id, suffix_length,
    em = 1 AS reached,
    CAST(CASE WHEN em = 1 THEN len(positions) END AS INTEGER) AS n_positions,
    CASE WHEN em = 1 THEN n_intervals END AS n_intervals,
    CASE WHEN em = 1 THEN len(positions) / suffix_length::DOUBLE ELSE 'Infinity'::DOUBLE END AS rho_upper_bound
FROM main.records
LEFT JOIN (SELECT DISTINCT experiment, cohort_digest, cohort FROM main.cases) AS named USING (experiment, cohort_digest)
WHERE allocator = 'locality-upper-bound' AND outcome = 'ok'
ORDER BY ALL
