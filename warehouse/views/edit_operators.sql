-- Recompute beside transplant on the same positions: items that both repaired, paired per item; all wordings together.
-- Recompute is worse where its margin recovery is lower by more than 0.05, the primary band of edit_contrasts.
SELECT
    r.experiment, r.cohort_digest, r.model, r.model_fingerprint, r.dtype, r.decoding, r.score_rule, r.executor,
    r.attention, r.engine_version, r.split, r.condition, r.distance, r.policy, r.k,
    count(*)::INTEGER AS n,
    avg(r.margin_recovery) AS mean_recompute,
    avg(t.margin_recovery) AS mean_transplant,
    avg((r.margin_recovery - t.margin_recovery < -0.05)::INTEGER)::DOUBLE AS share_recompute_worse,
    avg(coalesce(t.effect_in_carrier, r.effect_in_carrier)) AS effect_in_carrier,
    avg(coalesce(t.effect_in_block, r.effect_in_block)) AS effect_in_block,
    median(coalesce(t.oracle_depth, r.oracle_depth)) AS oracle_depth
FROM main.edit_records r
JOIN main.edit_records t
    ON t.operator = 'transplant' AND r.operator = 'recompute' AND t.outcome = 'ok' AND r.outcome = 'ok'
    AND t.experiment = r.experiment AND t.cohort_digest = r.cohort_digest AND t.case_digest = r.case_digest
    AND t.policy = r.policy AND t.k IS NOT DISTINCT FROM r.k AND t.executor = r.executor AND t.attention = r.attention
    AND t.model_fingerprint = r.model_fingerprint AND t.dtype = r.dtype AND t.decoding = r.decoding
    AND t.score_rule = r.score_rule AND t.engine_version = r.engine_version AND t.positions = r.positions
WHERE r.retained AND r.margin_recovery IS NOT NULL AND t.margin_recovery IS NOT NULL
GROUP BY ALL
ORDER BY ALL
