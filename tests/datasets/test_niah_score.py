"""Reading answers: hand-made examples, and an independent reading of the same rules."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cachemend.datasets.niah_score import exact_match, parse_values, read_values, visible_answer, visible_ids
from cachemend.repair_core.errors import InputError

from oracles import scoring

FINAL = "<|channel|>final<|message|>"


@pytest.mark.parametrize(
    ("answer", "values"),
    [
        ("123456", ["123456"]),
        ("123456, 654321", ["123456", "654321"]),
        ("654321, 123456, 654321", ["654321", "123456", "654321"]),
        ("The first\nis 11.\n\nThe second is 22.", ["11", "22"]),
        ("nothing here", []),
        ("", []),
        ("007", ["007"]),
        ("12,345", ["12", "345"]),
        ("<think>maybe 99</think>123456", ["123456"]),
        ("<think>a 1</think>22<think>b 3</think>", ["22"]),
        ("12<think>9</think>34", ["12", "34"]),
        ("<think>still thinking about 123456", []),
        ("123456 <think>or was it", []),
        ("<think>1<think>2</think>3</think>4", ["4"]),
        ("<think>1<think>2</think>3", []),
        ("the prompt opened this: 99</think>123456", ["123456"]),
        ("[THINK]5[/THINK]6", ["6"]),
        ("<reasoning>5</reasoning>6", ["6"]),
        ("draft 11\nAnswer: 22", ["22"]),
        ("draft 11\n  Final answer: 22, 33", ["22", "33"]),
        ("Answer: 11\nFinal answer: 22", ["22"]),
        ("my answer: 11", ["11"]),
        ("1 then the answer: 11", ["1", "11"]),
        ("draft 11 <answer>22</answer>", ["22"]),
        ("<answer>11</answer> no, <answer>22</answer>", ["22"]),
        (f"<|channel|>analysis<|message|>it is 11<|end|>{FINAL}22", ["22"]),
        (f"{FINAL}11\nAnswer: 22", ["22"]),
        ("<think>Answer: 11</think>22", ["22"]),
        ("<think>x</think>Answer: 22", ["22"]),
        ("\u0664\u0665 and 22", ["22"]),
    ],
)
def test_hand_made_answers(answer: str, values: list[str]) -> None:
    assert parse_values(answer) == values
    assert read_values(answer, "niah-list-v1") == values


TAGS = ["<think>", "</think>", "<answer>", "</answer>", FINAL, "<|channel|>", "\nAnswer:", "Final answer: ", "answer:"]
PIECES = st.sampled_from([*TAGS, "\n", "12", "7", " ", "x", ". ", "<", "think>", "34", "\u0663", "\r", "\t"])


@settings(max_examples=500)
@given(st.lists(PIECES, max_size=14).map("".join))
@example("12<think></think>34")
@example("1</think>\nAnswer:2</think>3")
def test_agrees_with_an_independent_reader(answer: str) -> None:
    assert parse_values(answer) == scoring.parse_niah(answer)


@settings(max_examples=200)
@given(
    st.lists(PIECES, max_size=10).map("".join), st.lists(st.sampled_from(["12", "7", "1234"]), min_size=1, max_size=3)
)
def test_list_score_is_list_equality(answer: str, gold: list[str]) -> None:
    assert exact_match(answer, gold, "niah-list-v1") == scoring.list_exact(scoring.parse_niah(answer), gold)


@pytest.mark.parametrize(
    ("answer", "gold", "whole", "first"),
    [
        ("541001", ["541001"], 1.0, 1.0),
        ("541001, 541001", ["541001"], 0.0, 1.0),
        ("1. 541001 2. 541001", ["541001"], 0.0, 1.0),
        ("1) 541001\n2) 233357", ["541001"], 0.0, 1.0),
        ("233357, 541001", ["541001"], 0.0, 0.0),
        ("541001 then 233357", ["541001", "233357"], 1.0, 1.0),
        ("233357 then 541001", ["541001", "233357"], 0.0, 0.0),
        ("5410012", ["541001"], 0.0, 0.0),
        ("none", ["541001"], 0.0, 0.0),
        ("<think>541001", ["541001"], 0.0, 0.0),
        ("about 12.5", ["12"], 0.0, 1.0),
    ],
)
def test_both_rules_on_hand_made_answers(answer: str, gold: list[str], whole: float, first: float) -> None:
    assert exact_match(answer, gold, "niah-list-v1") == whole
    assert exact_match(answer, gold, "niah-first-value-v1") == first


@given(st.lists(PIECES, max_size=10).map("".join))
def test_first_rule_reads_at_most_one_value_and_only_what_the_list_rule_reads(answer: str) -> None:
    first = read_values(answer, "niah-first-value-v1")
    assert len(first) <= 1
    assert set(first) <= set(read_values(answer, "niah-list-v1"))


def test_an_unknown_rule_is_refused_with_a_hint() -> None:
    with pytest.raises(InputError, match="did you mean 'niah-list-v1'"):
        exact_match("1", ["1"], "niah-list-v2")


@given(st.lists(st.integers(0, 5), max_size=12), st.sets(st.integers(0, 5), max_size=3))
def test_visible_ids_stop_at_the_first_end(ids: list[int], ends: set[int]) -> None:
    seen = visible_ids(ids, ends)
    assert list(seen) == ids[: len(seen)]
    assert not set(seen) & ends
    assert len(seen) == len(ids) or ids[len(seen)] in ends


def test_what_follows_the_end_of_the_turn_is_never_read() -> None:
    assert visible_ids([5, 6, 2, 7, 2], {2}) == (5, 6)
    assert visible_ids([2, 5], (2, 3)) == ()
    assert visible_ids([5, 6], frozenset()) == (5, 6)


def test_visible_answer_keeps_the_rest_as_it_is() -> None:
    assert visible_answer("Answer: yes\nand 5") == " yes\nand 5"
    assert visible_answer("no marker") == "no marker"
