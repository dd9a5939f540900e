"""The position rules and metrics of an in-place edit against cases worked out by hand."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats as library

from oracles import edit_metrics as metrics
from oracles import edit_policies as policies


def test_pool_and_window():
    # 10 tokens, edit [2, 4): 4 ... 8; token 9 is the query's neighbour.
    assert policies.pool(2, 4, 10) == [4, 5, 6, 7, 8]
    assert policies.pool(2, 9, 10) == policies.pool(2, 10, 10) == []
    assert policies.edit_local(4, 10, 3) == [4, 5, 6]
    assert policies.edit_local(4, 10, 5) == policies.pool(2, 4, 10)
    for a, b in ((4, 4), (-1, 2), (9, 11)):
        with pytest.raises(ValueError):
            policies.pool(a, b, 10)
    for k in (6, -1):
        with pytest.raises(ValueError, match=f"k = {k}"):
            policies.edit_local(4, 10, k)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        # The edit is token 1, n = 8, the pool 2 ... 6.
        (["A", "x", " is", " y", ".\n\n", "B", "C", "D"], [2, 3, 4]),  # the full stop is the block's
        (["A", "x", " is", ".\n", "\n", "B", "C", "D"], [2, 3]),  # token 4 is the blank line
        (["A", "x", " is", ".", "\n", "\n", "C", "D"], [2, 3, 4]),  # token 4 ends the last line
        (["A", "x", " is", ".\n", " \t\n", "B", "C", "D"], [2, 3]),  # blank, though not empty
        (["A", "x", " is", "\n", "y", "\nB", "C", "D"], [2, 3, 4, 5, 6]),  # no blank line: the whole pool
        (["A\n\n", "x", " is", ".\n\nB", "B", "B", "C", "D"], [2, 3]),  # the one before the edit does not count
        (["A", "x\n", "\n", "B", "B", "B", "C", "D"], []),  # the blank line follows at once
        (["A", "x", "y", "y", "y", "y", "y", "y\n\n"], [2, 3, 4, 5, 6]),  # ends in the last token
        (["A", "x", "y", "\n", "\n", "B\n", "\n", "D"], [2, 3]),  # the first of two
        (["A", "x", "y\n", "", "\n", "B", "C", "D"], [2]),  # an empty token at the end holds no character of it
        (["A", "x", "y", "y\n", "  ", "y", "C", "D"], [2, 3, 4, 5, 6]),  # white space that opens a line with text
    ],
)
def test_boundary(texts, expected):
    assert policies.edit_local_boundary(texts, 2, 8) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((c, True) for c in ".,;:|!?)]}"),
        *((text, True) for text in (" .", "?!", ").", "\n", "word\n", " \n ", "-", " *", "•", "1.", " 12)")),
        *((text, False) for text in ("", " ", "\t", "word", "word.", "(", "[", "{", "'", "--", "1", "a.", "-.", "1.2")),
    ],
)
def test_structural_token(text, expected):
    assert policies.is_structural(text) is expected


def test_structural():
    #         0    1    2     3    4     5    6    7     8    9
    texts = [".", "x", " is", ".", "\n", "A", "|", " B", ":", "."]
    # Edit [1, 2): of 2 ... 8 the structural ones are 3, 4, 6, 8; 0 lies before the edit, 9 is the last token.
    assert policies.structural(texts, 2, 10, 3) == ([3, 4, 6], 0)
    assert policies.structural(texts, 2, 10, 4) == ([3, 4, 6, 8], 0)
    assert policies.structural(texts, 2, 10, 6) == ([3, 4, 6, 8], 2)
    assert policies.structural(texts, 2, 10, 0) == ([], 0)
    with pytest.raises(ValueError):
        policies.structural(texts, 2, 10, 8)


def test_top_k():
    scores = [9, 9, 1, 3, 3, 2, 3, 9]
    # Pool 2 ... 6: three 3s, then 2.
    assert policies.top_k(scores, range(2, 7), 2) == [3, 4]
    assert policies.top_k(scores, range(2, 7), 4) == [3, 4, 5, 6]
    assert policies.top_k(scores, [6, 4, 3], 2) == [3, 4]  # whatever the pool's order
    assert policies.top_k([0.0] * 8, range(2, 7), 3) == [2, 3, 4]
    with pytest.raises(ValueError):
        policies.top_k(scores, range(2, 7), 6)


def test_carrier_window():
    # Edit ends at 4, n = 20: the pool is 4 ... 18.
    assert policies.carrier_window(10, 4, 20, 3) == [10, 11, 12]
    assert policies.carrier_window(16, 4, 20, 3) == [16, 17, 18]
    assert policies.carrier_window(17, 4, 20, 3) == [16, 17, 18]  # moved back, so that there are three
    assert policies.carrier_window(4, 4, 20, 15) == list(range(4, 19))
    for carrier, k in ((3, 2), (19, 2), (10, 16)):
        with pytest.raises(ValueError):
            policies.carrier_window(carrier, 4, 20, k)


def test_margin_recovery():
    assert metrics.margin_recovery(1, -2, 2) == 0.75  # 3 of 4
    assert metrics.margin_recovery(3, -2, 2) == 1.25
    assert metrics.margin_recovery(-3, -2, 2) == -0.25
    assert metrics.margin_recovery(-3, 2, -2) == 1.25  # a gap the other way: -5 of -4
    assert metrics.margin_recovery(5, 2, 2) is None


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("Oslo", True),
        (" It is Oslo.", True),
        ("Rome", False),
        ("", False),
        ("Oslo, not Rome", False),
        ("Oslo, not Romeo", True),  # the old value only as part of a word
        ("Oslofjord", False),
        ("Oslofjord, Oslo", True),  # found at the second place
        ("oslo", False),
        ("_Oslo_", False),
        ("Oslo's", True),
        ("Osloø", False),  # letters beyond ASCII are letters
        ("**Oslo**", True),
    ],
)
def test_flip(answer, expected):
    assert metrics.flip(answer, "Oslo", "Rome") is expected


def test_flip_of_other_values():
    assert metrics.flip("about 12, no more", "12", "1")
    assert not metrics.flip("about 12, no more", "2", "7")
    assert metrics.flip("grade A+.", "A+", "B")  # ends in no word character: boundary all the same
    assert not metrics.flip("(a.b)", "a-b", "x")  # no pattern characters
    assert not metrics.flip("axb", "a.b", "x")
    for value in ("", " Oslo"):
        with pytest.raises(ValueError, match="value"):
            metrics.flip("Oslo", value, "Rome")


def test_kl_recovery():
    # KL((1/2, 1/2) || (1/4, 3/4)) = 1/2 ln 2 + 1/2 ln 2/3 = 1/2 ln 4/3
    assert metrics.kl([0.5, 0.5], [0.25, 0.75]) == pytest.approx(0.5 * math.log(4 / 3), abs=1e-15)
    # KL((1, 0) || (1/2, 1/2)) = ln 2; KL((3/4, 1/4) || same) = ln 2 - (2 ln 2 - 3/4 ln 3) = 3/4 ln 3 - ln 2
    found = metrics.kl_recovery([0.75, 0.25], [1, 0], [0.5, 0.5])
    assert found == pytest.approx(1 - (0.75 * math.log(3) - math.log(2)) / math.log(2), abs=1e-15)
    assert metrics.kl_recovery([0.5, 0.5], [1, 0], [0.5, 0.5]) == 1
    assert metrics.kl_recovery([1, 0], [1, 0], [0.5, 0.5]) == 0
    assert metrics.kl_recovery([1, 0], [0.75, 0.25], [0.5, 0.5]) < -1  # unclipped
    assert metrics.kl_recovery([1, 0], [0.5, 0.5], [0.5, 0.5]) is None
    assert metrics.kl([0.5, 0.5], [1, 0]) == math.inf
    with pytest.raises(ValueError):
        metrics.kl([1], [0.5, 0.5])


def test_win_tie_loss():
    # Differences 1/2, 1/4, 0, -1/4, -1/2, 3/8.
    ours, theirs = [0.5, 1, 1, 0.5, 0, 0.375], [0, 0.75, 1, 0.75, 0.5, 0]
    assert metrics.win_tie_loss(ours, theirs, band=0.25) == (2, 3, 1)  # a quarter is a tie
    assert metrics.win_tie_loss(ours, theirs) == (3, 1, 2)
    assert metrics.win_tie_loss([0.54, 0.56, 0.44, 0.46], [0.5] * 4) == (1, 2, 1)
    assert metrics.win_tie_loss([], []) == (0, 0, 0)
    with pytest.raises(ValueError):
        metrics.win_tie_loss([1], [1, 2])


def test_bootstrap():
    # All four draws of two from {0, 1}: means 0, 1/2, 1/2, 1. At 2.5 %: .075 of the way through the first gap.
    band = metrics.percentile_bootstrap([0, 1], draws=[[0, 0], [0, 1], [1, 0], [1, 1]])
    assert band == pytest.approx((0.5, 0.0375, 0.9625), abs=1e-15)
    assert metrics.percentile_bootstrap([3, 3, 3]) == (3, 3, 3)
    wide = metrics.percentile_bootstrap([0, 0, 1, 1], replicates=4000)
    # The mean of four fair coins: 1/16 of the draws are all 0, more than 2.5 %.
    assert wide == (0.5, 0, 1)


def test_wilcoxon():
    # 1, 2, 3: the most extreme of 8 patterns and its mirror.
    assert metrics.wilcoxon_pratt([1, 2, 3]) == 2 / 8
    # 1, -2, 3: W+ - W- = 2. Sums of +-1 +-2 +-3: 6, 4, 2, 0, 0, -2, -4, -6; six of eight reach 2.
    assert metrics.wilcoxon_pratt([1, -2, 3]) == 6 / 8
    # Ranks with the zero: 1 (left out), 2, 3, 4. W+ - W- = -2 + 3 + 4 = 5. Sums of +-2 +-3 +-4: 9, 5, 3, 1 and
    # mirrors; four of eight reach 5. Without the zero: ranks 1, 2, 3, W+ - W- = 4, also four of eight.
    assert metrics.pratt_ranks([0, -1, 2, 3]) == [1, 2, 3, 4]
    assert metrics.wilcoxon_pratt([0, -1, 2, 3]) == 4 / 8
    # One zero, then 2, 3, 4, 5 with W+ - W- = 2 + 3 + 4 - 5 = 4, reached by 14, 10, 8, 6, 4 (2 + 3 + 4 - 5 and
    # -2 -3 + 4 + 5) and mirrors: 12 of 16. Without it 1, 2, 3, 4: 1 + 2 + 3 - 4 = 2, reached by 14 of 16.
    assert metrics.wilcoxon_pratt([0, 1, 2, 3, -4]) == 12 / 16
    assert metrics.wilcoxon_pratt([1, 2, 3, -4]) == 14 / 16
    # Equal sizes share ranks: 1.5, 1.5, 3. W+ - W- = 3; sums 6, 3, 3, 0 and mirrors: six of eight.
    assert metrics.pratt_ranks([1, -1, 2]) == [1.5, 1.5, 3]
    assert metrics.wilcoxon_pratt([1, -1, 2]) == 6 / 8
    assert metrics.wilcoxon_pratt([0, 0, 0]) == metrics.wilcoxon_pratt([]) == 1
    assert metrics.wilcoxon_pratt([0, 0, 5]) == 1  # both patterns of one sign are as extreme


def test_wilcoxon_against_the_library():
    rng = np.random.default_rng(0)
    every = library.PermutationMethod(n_resamples=np.inf)
    for size, top in itertools.product((2, 5, 8), (3, 6, 1000)):
        d = rng.integers(-top, top + 1, size=size)
        d[0] = d[0] or 1
        found = library.wilcoxon(d, zero_method="pratt", method=every).pvalue
        assert metrics.wilcoxon_pratt(d.tolist()) == pytest.approx(found, abs=1e-12)
    d = [0.3, -1.2, 2.5, 0.9, -0.1, 4.0, 1.7]  # neither zeros nor equal sizes
    exact = library.wilcoxon(d, zero_method="pratt", method="exact").pvalue
    assert metrics.wilcoxon_pratt(d) == pytest.approx(exact, abs=1e-15)


def test_holm():
    # .01 * 4, .02 * 3, .03 * 2 raised to .06, .5
    assert metrics.holm([0.03, 0.01, 0.5, 0.02]) == pytest.approx([0.06, 0.04, 0.5, 0.06], abs=1e-15)
    assert metrics.holm([0.001] * 15) == pytest.approx([0.015] * 15, abs=1e-15)
    assert metrics.holm([]) == []
