-- The same arm of the same cases by another executor and interval-wise, the paper's: one row per executor, arm and
-- stratum within one model, cohort and set of settings, over the n cases that both answered of the n_of that both have.
-- only_this and only_interval are the discordant cases; p is McNemar's, exact and two-sided. References use no executor:
-- they are a control, and differ only where the same work gave another answer.
WITH keyed AS (
    SELECT
        {
            'experiment': experiment, 'cohort_digest': cohort_digest, 'stratum': stratum, 'model': model,
            'model_fingerprint': model_fingerprint, 'dtype': dtype, 'decoding': decoding, 'score_rule': score_rule,
            'attention': attention, 'engine_version': engine_version, 'allocator': allocator, 'budget': budget,
            'arm': arm, 'auxiliary': auxiliary
        } AS settings,
        case_digest, executor, outcome = 'ok' AS answered, em, answer, positions, gold_nll, tv_to_clean
    FROM main.records
    WHERE executor <> 'bottom-right'
),
pairs AS (
    SELECT
        a.settings, a.executor,
        a.answered AND b.answered AS paired,
        a.em = 1 AS this_right,
        b.em = 1 AS interval_right,
        (a.answer = b.answer)::INTEGER AS same_text,
        a.positions IS DISTINCT FROM b.positions AS other_positions,
        abs(a.gold_nll - b.gold_nll) AS nll_apart,
        abs(a.tv_to_clean - b.tv_to_clean) AS tv_apart
    FROM keyed a
    JOIN keyed b
        ON a.settings IS NOT DISTINCT FROM b.settings AND a.case_digest = b.case_digest
        AND b.executor = 'interval' AND a.executor <> 'interval'
),
counted AS (
    SELECT
        settings, executor,
        count(*)::INTEGER AS n_of,
        (count(*) FILTER (paired))::INTEGER AS n,
        (count(*) FILTER (paired AND this_right AND interval_right))::INTEGER AS both_right,
        (count(*) FILTER (paired AND this_right AND NOT interval_right))::INTEGER AS only_this,
        (count(*) FILTER (paired AND NOT this_right AND interval_right))::INTEGER AS only_interval,
        (count(*) FILTER (paired AND NOT this_right AND NOT interval_right))::INTEGER AS both_wrong,
        100.0::DOUBLE * avg(same_text) FILTER (paired) AS same_text_percent,
        (count(*) FILTER (paired AND other_positions))::INTEGER AS n_other_positions,
        median(nll_apart) FILTER (paired) AS gold_nll_apart_median,
        max(nll_apart) FILTER (paired) AS gold_nll_apart_high,
        max(tv_apart) FILTER (paired) AS tv_apart_high
    FROM pairs
    GROUP BY ALL
)
SELECT
    unnest(settings), executor, n_of, n, both_right, only_this, only_interval, both_wrong,
    -- The binomial tail of the smaller discordant count, twice; 1 where no pair differs.
    least(1.0::DOUBLE, 2 * list_sum(list_transform(
        range(least(only_this, only_interval) + 1),
        lambda i: exp(
            lgamma(only_this + only_interval + 1) - lgamma(i + 1) - lgamma(only_this + only_interval - i + 1)
            - (only_this + only_interval) * ln(2)
        )
    ))) AS p,
    same_text_percent, n_other_positions, gold_nll_apart_median, gold_nll_apart_high, tv_apart_high
FROM counted
ORDER BY ALL
