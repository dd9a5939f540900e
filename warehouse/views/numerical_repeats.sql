-- The paper's Table 17, measured: one row per way to a cache and output, within one model, cohort, stratum and set of
-- settings. The first three outputs are disagreement in percent, 1 - A as the paper prints it, and its excess in
-- percentage points; "gold NLL" is in nats, per case the median of the absolute differences. Figures are means over the
-- n complete cases of n_of; the last two are medians over them.
-- shared: three decodes from one Re-prefill cache. re_prefill: three builds of Re-prefill. own: three builds of the
-- arm. cross_path: the nine pairs of its builds and Re-prefill's. excess: cross_path - re_prefill per case, not clipped.
WITH answered AS (
    SELECT
        {
            'experiment': experiment, 'cohort_digest': cohort_digest, 'stratum': stratum, 'model': model,
            'model_fingerprint': model_fingerprint, 'dtype': dtype, 'decoding': decoding, 'score_rule': score_rule,
            'attention': attention, 'engine_version': engine_version
        } AS settings,
        case_digest, path, budget, executor, arm, cache, repeat, outcome, gold_nll,
        unnest(['sequence', 'exact logits', 'argmax', 'gold NLL']) AS output,
        unnest([CAST(answer_ids AS VARCHAR), logits_sha256, CAST(argmax AS VARCHAR), NULL]) AS said
    FROM main.repeat_records
),
differences AS (
    SELECT
        a.settings, a.case_digest, a.output, a.path, a.budget, a.executor, a.arm,
        CASE WHEN b.cache = 'shared' THEN 'shared' WHEN a.arm = b.arm THEN 'own' ELSE 'cross' END AS kind,
        CASE a.output
            WHEN 'gold NLL' THEN abs(a.gold_nll - b.gold_nll)
            ELSE 100.0::DOUBLE * (a.said <> b.said)::INTEGER
        END AS difference
    FROM answered a
    JOIN answered b
        ON a.settings IS NOT DISTINCT FROM b.settings AND a.case_digest = b.case_digest AND a.output = b.output
        AND a.cache = b.cache AND ((a.arm = b.arm AND a.repeat < b.repeat) OR (a.path <> 're-prefill' AND b.path = 're-prefill'))
    WHERE a.outcome = 'ok' AND b.outcome = 'ok'
),
pairs AS (
    SELECT
        settings, case_digest, output, path, budget, executor, arm, kind,
        if(output = 'gold NLL', median(difference), avg(difference)) AS apart
    FROM differences
    GROUP BY settings, case_digest, output, path, budget, executor, arm, kind
    HAVING count(*) = if(kind = 'cross', 9, 3)
),
complete AS (
    SELECT x.* EXCLUDE (kind), s.apart AS shared, r.apart AS re_prefill, o.apart AS own
    FROM pairs x
    JOIN pairs o USING (settings, case_digest, output, arm)
    JOIN pairs r USING (settings, case_digest, output)
    JOIN pairs s USING (settings, case_digest, output)
    WHERE x.kind = 'cross' AND o.kind = 'own' AND r.kind = 'own' AND r.path = 're-prefill' AND s.kind = 'shared'
),
recorded AS (
    SELECT settings, count(DISTINCT case_digest) AS n_of FROM answered GROUP BY ALL
),
summed AS (
    SELECT
        settings, path, budget, executor, arm, output,
        count(*)::INTEGER AS n,
        n_of::INTEGER AS n_of,
        avg(shared) AS shared,
        avg(re_prefill) AS re_prefill,
        avg(own) AS own,
        avg(apart) AS cross_path,
        avg(apart - re_prefill) AS excess,
        median(apart) AS cross_path_median,
        median(apart - re_prefill) AS excess_median
    FROM complete
    JOIN recorded USING (settings)
    GROUP BY ALL
)
SELECT unnest(settings), * EXCLUDE (settings)
FROM summed
ORDER BY ALL
