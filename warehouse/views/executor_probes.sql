-- Each executor against interval-wise refresh of the same positions, and against FP32 arithmetic: one row per budget and
-- executor within one model, cohort, stratum and set of settings. Columns are NULL where nothing is compared: for
-- interval-wise refresh itself, the FP32 ones for a model that is FP32 already, and the budget's for packed refresh,
-- whose own error is the measure: its ratio is 1 by construction. n_budget counts the cases that are held to the budget.
SELECT
    experiment, cohort_digest, stratum, model, model_fingerprint, dtype, decoding, score_rule, attention,
    engine_version, path, budget, executor, arm,
    count(*)::INTEGER AS n_of,
    (count(*) FILTER (outcome = 'ok'))::INTEGER AS n,
    (count(*) FILTER (outcome <> 'ok'))::INTEGER AS n_failed,
    100.0::DOUBLE * avg(argmax_agreement) FILTER (outcome = 'ok') AS argmax_agreement_percent,
    (count(*) FILTER (outcome = 'ok' AND NOT first_argmax_same))::INTEGER AS n_first_argmax_differs,
    min(logits_relative_l2) FILTER (outcome = 'ok') AS logits_relative_l2_low,
    median(logits_relative_l2) FILTER (outcome = 'ok') AS logits_relative_l2_median,
    max(logits_relative_l2) FILTER (outcome = 'ok') AS logits_relative_l2_high,
    median(kv_relative_l2) FILTER (outcome = 'ok') AS kv_relative_l2_median,
    max(kv_relative_l2) FILTER (outcome = 'ok') AS kv_relative_l2_high,
    max(kv_max_abs) FILTER (outcome = 'ok') AS kv_max_abs,
    median(fp32_logits_relative_l2) FILTER (outcome = 'ok') AS fp32_logits_relative_l2_median,
    median(fp32_kv_relative_l2) FILTER (outcome = 'ok') AS fp32_kv_relative_l2_median,
    (count(budget_n_over) FILTER (outcome = 'ok' AND executor <> 'packed'))::INTEGER AS n_budget,
    if(n_budget > 0, (count(*) FILTER (outcome = 'ok' AND budget_n_over > 0))::INTEGER, NULL) AS n_over_budget,
    max(budget_largest_ratio) FILTER (outcome = 'ok' AND executor <> 'packed') AS budget_largest_ratio,
    arg_max(budget_where, budget_largest_ratio) FILTER (outcome = 'ok' AND executor <> 'packed') AS budget_where
FROM main.probe_records
GROUP BY ALL
ORDER BY ALL
