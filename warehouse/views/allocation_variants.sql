-- Variants of SUR on the rosters of the paper's open questions (section 9.3), each against the arm it changes, on the
-- cases that both answered without failure. One row per settings, roster, stratum, budget and variant; reference names
-- what it is compared with, candidate whether it has SUR's own allowance. difference is in percentage points,
-- nll_difference (the gold answer's negative log likelihood) in nats per token. n_other_positions counts the cases in
-- which both did not recompute the same positions: where it is 0, nothing was compared.
-- Executor bottom-right is left out: its rows see tokens after their own, so it repairs nothing.
WITH answered AS (
    SELECT records.*, named.cohort
    FROM main.records
    JOIN (
        SELECT DISTINCT cohort_digest, cohort FROM main.cases
        WHERE experiment = 'erasing-niah' AND starts_with(cohort, 'questions-')
    ) AS named USING (cohort_digest)
    WHERE experiment = 'erasing-niah' AND outcome = 'ok' AND executor <> 'bottom-right'
)
SELECT
    mine.experiment, mine.cohort_digest, mine.cohort,
    starts_with(mine.cohort, 'questions-dev-') AS dev,
    regexp_extract(mine.cohort, '^questions-(?:dev-)?(.*)$', 1) AS wording,
    mine.stratum, mine.model_fingerprint, mine.dtype, mine.score_rule, mine.decoding,
    mine.executor, mine.attention, mine.engine_version, mine.budget, question, mine.allocator, reference, candidate,
    count(*)::INTEGER AS n,
    (count(*) FILTER (mine.em = 1))::INTEGER AS n_correct,
    (count(*) FILTER (theirs.em = 1))::INTEGER AS n_reference_correct,
    (count(*) FILTER (mine.em = 1 AND theirs.em = 0))::INTEGER AS repaired,
    (count(*) FILTER (mine.em = 0 AND theirs.em = 1))::INTEGER AS regressed,
    100.0::DOUBLE * avg(mine.em - theirs.em) AS difference,
    avg(mine.gold_nll - theirs.gold_nll) AS nll_difference,
    (count(*) FILTER (mine.positions IS DISTINCT FROM theirs.positions))::INTEGER AS n_other_positions,
    avg(mine.positions_budget) AS mean_positions,
    avg(theirs.positions_budget) AS mean_reference_positions,
    avg(mine.n_intervals) AS mean_n_intervals
FROM answered AS mine
JOIN (VALUES
    (1, 'window', 'sur-head', 'sur', true),
    (2, 'window', 'sur-tail', 'sur', true),
    (3, 'window', 'sur-backward', 'sur', true),
    (4, 'window', 'sur-symmetric', 'sur', true),
    (5, 'window', 'sur-tails-2', 'sur', true),
    (6, 'window', 'sur-tails-4', 'sur', true),
    (7, 'boundaries', 'fixed-blocks', 'sur', true),
    (8, 'boundaries', 'windows-1', 'sur', true),
    (9, 'boundaries', 'windows-2', 'sur', true),
    (10, 'boundaries', 'windows-4', 'sur', true),
    (11, 'components', 'sur-bonus-0', 'sur', true),
    (12, 'components', 'sur-bonus-0.5', 'sur', true),
    (13, 'components', 'sur-top-1', 'sur', true),
    (14, 'components', 'sur-top-all', 'sur', true),
    (15, 'components', 'sur-decay-0', 'sur', true),
    (16, 'components', 'sur-decay-4', 'sur', true),
    (17, 'components', 'sur-decay-64', 'sur', true),
    (18, 'components', 'sur-min-16', 'sur', true),
    (19, 'components', 'sur-min-32', 'sur', true),
    (20, 'components', 'sur-max-16', 'sur', true),
    (21, 'components', 'sur-max-32', 'sur', true),
    (22, 'joint', 'sur-of-prompt', 'sur', false),
    (23, 'joint', 'joint-mean-head', 'sur', false),
    (24, 'joint', 'whole-units', 'matched-tokens', false),
    (25, 'relevance', 'hybrid-z', 'sur', true),
    (26, 'relevance', 'hybrid-rank', 'sur', true),
    (27, 'relevance', 'sur-two-stage', 'sur', true),
    (28, 'relevance', 'sur-bridged', 'sur', true)
) AS rules(place, question, allocator, reference, candidate) ON mine.allocator = rules.allocator
JOIN answered AS theirs
    ON theirs.allocator = reference
    AND theirs.budget = mine.budget
    AND theirs.experiment = mine.experiment
    AND theirs.cohort_digest = mine.cohort_digest
    AND theirs.case_digest = mine.case_digest
    AND theirs.model_fingerprint = mine.model_fingerprint
    AND theirs.dtype = mine.dtype
    AND theirs.score_rule = mine.score_rule
    AND theirs.decoding = mine.decoding
    AND theirs.executor = mine.executor
    AND theirs.attention = mine.attention
    AND theirs.engine_version = mine.engine_version
GROUP BY ALL
ORDER BY mine.experiment, dev DESC, wording, mine.cohort_digest, mine.stratum, mine.model_fingerprint, mine.dtype,
    mine.score_rule, mine.decoding, mine.executor, mine.attention, mine.engine_version, min(place), mine.budget
