-- Margin recovery and Flip of derived items by policy, K and distance, all wordings together; rules that set their own
-- length and references have no K.
SELECT
    experiment, cohort_digest, model, model_fingerprint, dtype, decoding, score_rule, executor, attention,
    engine_version, split, policy, k, arm, diagnostic, distance,
    n, n_of, n_retained, mean, low, high, flip_rate, mean_positions, evidence
FROM main.edit_recovery
WHERE condition = 'derived' AND family IS NULL AND operator <> 'transplant'
ORDER BY ALL
