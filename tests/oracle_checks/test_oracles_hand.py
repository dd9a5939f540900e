"""Every oracle against cases worked out by hand (the working stands beside each)."""

import math
from fractions import Fraction

import numpy as np
import pytest

from oracles import allocators, attention, counts, intervals, scoring, stats
from oracles.budget import budget
from oracles.relevance import quantise, relevance
from oracles.units import units


@pytest.mark.parametrize(
    ("suffix_length", "percent", "expected"),
    [
        (100, 5, 5),  # exactly 5
        (101, 5, 6),  # 5.05
        (10, 2, 1),  # 0.2
        (8, "12.5", 1),  # exactly 1
        (1000, 0.1, 1),  # exactly 1; the binary float 0.1 lies above a tenth and would give 2
        (7, 100, 7),
        (7, 0, 0),
        (0, 40, 0),
    ],
)
def test_budget(suffix_length, percent, expected):
    assert budget(suffix_length, percent) == expected


@pytest.mark.parametrize(("suffix_length", "percent"), [(5, -1), (5, 100.1), (-1, 5)])
def test_budget_refuses(suffix_length, percent):
    with pytest.raises(ValueError):
        budget(suffix_length, percent)


def sizes_to_text(sizes):
    """Tokens two characters wide; sizes: per container, the token count of every piece."""
    at, containers = 0, []
    for pieces in sizes:
        containers.append([])
        for n in pieces:
            containers[-1].append((at, at + 2 * n))
            at += 2 * n
    return [(c, c + 2) for c in range(0, at, 2)], containers


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([[10, 9]], [10, 9]),
        ([[128]], [128]),
        ([[129]], [65, 64]),  # two chunks, the longer first
        ([[257]], [86, 86, 85]),  # three chunks of 85 and two left over
        ([[10, 3, 12]], [13, 12]),  # 3 joins the shorter, before it
        ([[12, 3, 10]], [12, 13]),  # 3 joins the shorter, after it
        ([[10, 3, 10]], [13, 10]),  # tie: before
        ([[3, 10]], [13]),
        ([[10], [3], [10, 9]], [10, 3, 10, 9]),  # alone in its container: stays short
        ([[128, 5]], [67, 66]),  # 133 is too long again
        ([[3, 2, 2, 9]], [16]),  # 5 2 9, then 7 9, then 16
        ([[8, 2, 9, 1, 8]], [10, 9, 9]),  # 2 joins 8 (10 9 1 8); then 1 joins the 8 after it
        ([[0, 9], [], [9]], [9, 9]),  # pieces and containers without tokens vanish
    ],
)
def test_unit_sizes(sizes, expected):
    found = units(*sizes_to_text(sizes))
    assert [len(unit) for unit in found] == expected
    assert [t for unit in found for t in unit] == list(range(sum(expected)))


def test_unit_midpoints():
    # Pieces [0, 6) and [6, 12). Midpoints 2, 5.5, 6 (on the boundary: right), 9.5.
    spans = [(0, 4), (4, 7), (5, 7), (7, 12)]
    assert units(spans, [[(0, 6), (6, 12)]], max_len=4, min_len=1) == [[0, 1], [2, 3]]


def test_unit_zero_width():
    # The leading one has nothing before it and joins the first unit; (6, 6) follows token 1 and joins its
    # unit, though its place is the second piece's start.
    spans = [(0, 0), (0, 6), (6, 6), (6, 12), (12, 12)]
    assert units(spans, [[(0, 6)], [(6, 12)]], max_len=4, min_len=1) == [[0, 1, 2], [3, 4]]


def test_units_refuse():
    with pytest.raises(ValueError, match="outside"):
        units([(0, 4), (4, 8)], [[(0, 4)]])
    with pytest.raises(ValueError, match="text order"):
        units([(8, 16), (0, 8)], [[(0, 8), (8, 16)]], max_len=1, min_len=1)
    with pytest.raises(ValueError, match="for ever"):
        units([(0, 4)], [[(0, 4)]], max_len=4, min_len=4)


def test_relevance():
    # cos with (1, 0): 1, 0, 3/5, 0 (zero row). Only token 0 is in the query.
    E = np.array([[1, 0], [0, 2], [3, 4], [0, 0]], dtype=np.float32)
    found = relevance(E, [0, 1, 2, 3], [0])
    assert found.raw.tolist() == [1.25, 0.0, 0.6, 0.0]
    # 0.6 * 2^20 = 629145.6
    assert found.r.tolist() == [1.25, 0.0, 629146 / 2**20, 0.0]
    # The maximum over two query tokens: (3, 4) with (0, 1) is 4/5.
    assert relevance(E, [2], [0, 1]).raw[0] == pytest.approx(0.8, abs=1e-15)


def test_relevance_identity_is_exact():
    E = np.array([[0.1, 0.2, 0.3], [0.7, -0.1, 0.4], [1e-30, 0, 0], [0, 0, 0]])
    assert relevance(E, [0, 1, 2, 3], [3, 2, 1, 0]).raw.tolist() == [1.25] * 4
    with pytest.raises(ValueError):
        relevance(E, [0], [])


def test_quantise_half_to_even():
    step = 2.0**-20
    assert [quantise(x * step) for x in (0.5, 1.5, 2.5, -0.5, 2.51)] == [0, 2 * step, 2 * step, 0, 3 * step]


R = [0.1, 0.9, 0.2, 0.3, 0.8, 0.8, 0.8, 0.8, 0.7, 0.7]
UNITS = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]  # means of the top four: .375, .8, .7


@pytest.mark.parametrize(
    ("B", "expected"),
    [
        (0, []),
        (4, [4, 5, 6, 7]),
        (5, [4, 5, 6, 7, 8]),  # one left for unit 2, whose two tokens tie: earlier
        (6, [4, 5, 6, 7, 8, 9]),
        # Unit 0: u = .449 (e^-.8), 1, .939 (e^-1/16 over e^-.7), .882
        (7, [1, 4, 5, 6, 7, 8, 9]),  # width 1: the 1
        (8, [1, 2, 4, 5, 6, 7, 8, 9]),  # width 2: 1.449, 1.939, 1.821
        (9, [1, 2, 3, 4, 5, 6, 7, 8, 9]),  # width 3: 2.388, 2.821
        (10, list(range(10))),
    ],
)
def test_sur(B, expected):
    assert allocators.sur(R, UNITS, B) == expected


def test_envelope():
    # exp(-1), then the peak, then e^-1/16 against e^-1, then e^-2/16 against e^-.1 (larger)
    found = allocators.envelope([9.0, 0.0, 1.0, 0.0, 0.9, 9.0], [1, 2, 3, 4])
    assert found == pytest.approx([math.exp(-1), 1, math.exp(-1 / 16), math.exp(-0.1)], abs=1e-15)


def test_sur_ranks_by_top_four_and_earlier_start():
    # Unit 0: four ones among zeros, top-four mean 1. Unit 1: all .8. Units 2 and 3 tie at .75.
    r = [1, 1, 1, 1, 0, 0, 0, 0] + [0.8] * 4 + [0.75] * 2 + [0.75] * 3
    layout = [list(range(8)), [8, 9, 10, 11], [12, 13], [14, 15, 16]]
    assert allocators.sur(r, layout, 8) == list(range(8))
    assert allocators.sur(r, layout, 14) == list(range(14))


def test_dense_and_window():
    r = [1.0, 0.0, 3.0, 1.0, 2.0, 2.0]
    assert allocators.dense_tokens(r, 2) == [2, 4]  # 3, then the earlier 2
    assert allocators.dense_tokens(r, 4) == [0, 2, 4, 5]  # and the earlier 1
    assert allocators.max_relevance_window(r, 2) == [2, 3]  # sums 1 3 4 3 4: the earlier 4
    assert allocators.max_relevance_window(r, 0) == []
    with pytest.raises(ValueError):
        allocators.dense_tokens(r, 7)


def test_bm25():
    # N = 3, df(a) = 2, average (2 + 3 + 0) / 3 = 5/3, idf = log(1 + 1.5 / 2.5) = log 1.6; the query says a
    # twice. Unit 0: tf 1, K = 1.2 (.25 + .75 * 1.2) = 1.38, so 2.2 / 2.38.
    # Unit 1: tf 2, K = 1.2 (.25 + 1.35) = 1.92, so 4.4 / 3.92.
    found = allocators.bm25_scores(["A b", "a a-c!", "…"], "a? A")
    assert found == pytest.approx([2 * math.log(1.6) * 2.2 / 2.38, 2 * math.log(1.6) * 4.4 / 3.92, 0], abs=1e-14)
    assert allocators.bm25_scores(["…", ""], "a") == [0, 0]
    assert allocators.terms("Café x_2-B7") == ["caf", "x", "2", "b7"]
    # Unit 1 first; a partial unit takes its first tokens.
    assert allocators.bm25_units(["A b", "a a c", ""], "a", [[0, 1], [2, 3, 4], [5]], 4) == [0, 2, 3, 4]
    assert allocators.bm25_units(["A b", "a a c", ""], "a", [[0, 1], [2, 3, 4], [5]], 2) == [2, 3]


@pytest.mark.parametrize(
    ("positions", "valid"),
    [
        ([3, 4, 6, 7, 8], True),  # a whole unit and a window
        ([0, 1, 2, 3, 4], True),  # two whole units
        ([3, 4, 5, 7, 8], False),  # the window has a hole
        ([0, 1, 3, 4, 5], False),  # two partial units
        ([0, 1, 2, 3], False),  # four, not five
        ([0, 1, 2, 4, 4], False),  # a repeat
        ([0, 1, 2, 3, 9], False),  # not in the suffix
    ],
)
def test_random_units_valid(positions, valid):
    assert allocators.random_units_valid([[0, 1, 2], [3, 4], [5, 6, 7, 8]], 5, positions) is valid


def test_intervals():
    assert intervals.intervals([8, 3, 9, 4]) == [(3, 5), (8, 10)]
    assert intervals.intervals([]) == []
    assert intervals.intervals([0, 2, 4]) == [(0, 1), (2, 3), (4, 5)]
    with pytest.raises(ValueError):
        intervals.intervals([1, 1])


def heads(*rows):
    return np.array(rows, dtype=float)[:, :, None]


def test_attention_by_hand():
    # exp of the keys: 1, 2, 5; values 1, 2, 10.
    K, V = heads([0, math.log(2), math.log(5)]), heads([1, 2, 10])
    q = heads([1.0, 1.0, 1.0])
    found = attention.indexed_attention(q, K, V, [0, 1, 2], 1.0)[0, :, 0]
    assert found == pytest.approx([1, 5 / 3, 55 / 8], abs=1e-14)
    assert attention.indexed_attention(q, K, V, [0, 1, 2], 1.0, window=2)[0, :, 0] == pytest.approx(
        [1, 5 / 3, 54 / 7], abs=1e-14
    )
    # A sink of log 1 adds one to the denominator only: 1/2, 5/4, 55/9.
    assert attention.indexed_attention(q, K, V, [0, 1, 2], 1.0, sinks=[0.0])[0, :, 0] == pytest.approx(
        [1 / 2, 5 / 4, 55 / 9], abs=1e-14
    )
    # tanh(atanh(log 2)) = log 2, the scale before the cap.
    K2 = heads([0, 2 * math.atanh(math.log(2)), 9])
    assert attention.indexed_attention(q[:, :1], K2, V, [1], 0.5, softcap=1.0)[0, 0, 0] == pytest.approx(
        5 / 3, abs=1e-14
    )


def test_attention_groups():
    # Query heads 0 and 1 read K/V head 0 (value 7), heads 2 and 3 read head 1 (value 9).
    out = attention.indexed_attention(np.ones((4, 1, 1)), np.ones((2, 1, 1)), heads([7], [9]), [0], 1.0)
    assert out[:, 0, 0].tolist() == [7, 7, 9, 9]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("12, 7 and 12", ["12", "7", "12"]),
        ("1,234\n\n007", ["1", "234", "007"]),
        ("<think>3</think>4", ["4"]),
        ("<think>3<think>4</think>5</think>6", ["6"]),
        ("1<think>3</think>4", ["1", "4"]),
        ("4 <think>5", []),
        ("so 5</think>6", ["6"]),
        ("Of 3 keys\nAnswer: 4\n 5", ["4", "5"]),
        ("Answer: 1\n final answer : 2, 3", ["2", "3"]),
        ("The answer: 4", ["4"]),
        ("1 is the answer: 4", ["1", "4"]),  # not at a line's start
        ("<answer>1</answer> 2 <answer>3</answer>", ["3"]),
        ("<|channel|>analysis<|message|>8<|end|><|channel|>final<|message|>9", ["9"]),
        ("Answer: 5 <|channel|>final<|message|> 6", ["6"]),
        ("<think>Answer: 5</think>6", ["6"]),
        ("٣ 4", ["4"]),  # ASCII digits only
        ("", []),
    ],
)
def test_parse_niah(answer, expected):
    assert scoring.parse_niah(answer) == expected


def test_scores():
    assert scoring.list_exact(["1", "2"], ("1", "2"))
    assert not scoring.list_exact(["2", "1"], ["1", "2"])
    assert not scoring.list_exact(["1", "1", "2"], ["1", "2"])
    assert scoring.first_value_exact(["1", "9"], ["1"])
    assert not scoring.first_value_exact(["9", "1"], ["1"])
    assert not scoring.first_value_exact([], ["1"])


def test_mcnemar_and_holm():
    assert stats.mcnemar_exact_p(1, 5) == 14 / 64  # 2 (1 + 6) / 2^6
    assert stats.mcnemar_exact_p(5, 0) == 2 / 32
    assert stats.mcnemar_exact_p(3, 3) == 1
    assert stats.mcnemar_exact_p(0, 0) == 1
    # .01 * 3; .03 * 2; .04 * 1 is raised to the .06 before it
    assert stats.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06], abs=1e-15)
    assert stats.holm([0.9, 0.8]) == [1, 1]


def test_total_variation_recovery():
    assert stats.tv([0.5, 0.5], [1, 0]) == 0.5
    assert stats.nr_tv([0.75, 0.25], [1, 0], [0.5, 0.5]) == 0.5
    assert stats.nr_tv([0, 1], [1, 0], [0.5, 0.5]) == -1  # unclipped
    assert stats.nr_tv([0.5, 0.5], [1, 0], [1, 0]) is None


def test_bootstrap():
    # All four draws of two from {0, 1}: means 0, .5, .5, 1. Percentile 2.5 lies at .075 of the first gap.
    band = stats.percentile_bootstrap_mean([0, 1], draws=[[0, 0], [0, 1], [1, 0], [1, 1]])
    assert band == pytest.approx((0.5, 0.0375, 0.9625), abs=1e-15)
    assert stats.linear_percentile([4, 1, 3], 75) == 3.5


def test_counts():
    # P = 2, S = 3: Replay reads 3 + 4 + 5.
    assert counts.replay_pairs(2, 3) == 12 == 3 * 2 + 3 * 4 // 2
    assert counts.causal_pairs(2, [1, 3]) == 8 == counts.causal_pairs_absolute([2, 4])
    assert counts.largest_pairs(2, 3, 2) == 9 == 2 * (2 + 3) - 2 * 1 // 2
    assert counts.token_layers(36, 64) == 2304
    # The published example: 10K suffix, 2 % and 5 % give at most 4 % and 10 % of the pairs.
    assert [counts.pair_bound(10_000, B) for B in (200, 500)] == [Fraction(4, 100), Fraction(10, 100)]
    assert counts.pair_bound(3, 2) == 1
    # 64 positions symmetric about the middle of 2048 and 8192: mean u + 1 is 1024.5 and 4096.5.
    assert counts.causal_pairs_absolute(range(992, 1056)) == 65_568
    assert counts.causal_pairs_absolute(range(4064, 4128)) == 262_176
