"""Features of an edit, against counts by hand and a textbook edit distance."""

from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerBase

from cachemend.datasets.edit_build import build_edits
from cachemend.datasets.edit_case import EditCase
from cachemend.datasets.edit_features import edit_distance, edit_features_of, observable_features

from support.edit_items import small


def recursive(a: str, b: str) -> int:
    """The definition, without a table."""

    @cache
    def steps(i: int, j: int) -> int:
        if i == 0 or j == 0:
            return i + j
        if a[i - 1] == b[j - 1]:
            return steps(i - 1, j - 1)
        return 1 + min(steps(i - 1, j - 1), steps(i - 1, j), steps(i, j - 1))

    return steps(len(a), len(b))


@given(a=st.text("abc", max_size=8), b=st.text("abc", max_size=8))
def test_edit_distance_is_the_recursive_one(a: str, b: str) -> None:
    assert edit_distance(a, b) == recursive(a, b) == edit_distance(b, a)


def hand_made(**changes: object) -> EditCase:
    fields: dict[str, object] = {
        "case_id": "c", "item_id": "i", "split": "dev", "condition": "derived", "distance": 0, "actual_distance": 3,
        "family": "f", "seed": 1, "original_ids": (1, 2, 3, 4, 5, 6, 7, 8, 9, 10),
        "edited_ids": (1, 2, 30, 4, 50, 6, 7, 8, 9, 10), "span": (2, 5), "carrier": (8, 10), "block_stop": 10,
        "query_ids": (1, 2, 3, 4), "relevance_ids": (1, 2), "query_text": "Who drives Tarn Fell? Tarn?",
        "context_text": "Tarn Fell. Route: Tarn. Not Tarnley; Mirelle.", "old_span_text": "Mirelle",
        "new_span_text": "Tarn Fell", "old_answer": "x", "new_answer": "y", "old_ids": (1,), "new_ids": (2,),
    }  # fmt: skip
    return EditCase(**{**fields, **changes})  # type: ignore[arg-type]


def test_features_by_hand() -> None:
    assert edit_features_of(hand_made()) == {
        "is_direct": 0.0,
        "is_derived": 1.0,
        "is_irrelevant": 0.0,
        "relative_position": 0.2,
        "context_length": 10.0,
        "downstream_length": 5.0,
        "span_length": 3.0,
        "changed_tokens": 2.0,
        "rest_of_block_length": 5.0,
        "query_length": 2.0,
        "old_chars": 7.0,
        "new_chars": 9.0,
        "old_words": 1.0,
        "new_words": 2.0,
        "edit_distance_chars": float(recursive("Mirelle", "Tarn Fell")),
        "edit_distance_share": recursive("Mirelle", "Tarn Fell") / 9,
        "shared_prefix_chars": 0.0,
        "new_in_query": 3.0,
        "old_in_query": 0.0,
        "new_in_context": 3.0,
        "old_in_context": 1.0,
    }
    alike = edit_features_of(hand_made(old_span_text="Tarnby", new_span_text="Tarnley"))
    assert alike["shared_prefix_chars"] == 4.0


def test_features_use_no_answer_and_not_where_it_stands() -> None:
    case = hand_made()
    answers = {"old_answer": "1", "new_answer": "2", "old_ids": (7, 8, 9), "new_ids": (7,)}
    other = replace(case, **answers, carrier=(6, 7), actual_distance=1, distance=250)
    assert edit_features_of(other) == edit_features_of(case)


def test_every_built_case_has_the_same_finite_features(tiny_chat: PreTrainedTokenizerBase) -> None:
    rows = [edit_features_of(case) for case in build_edits(tiny_chat, small(items=2)).cases]
    assert len({tuple(row) for row in rows}) == 1
    assert all(value == pytest.approx(value) and abs(value) < 1e5 for row in rows for value in row.values())
    assert {row["is_direct"] + row["is_derived"] + row["is_irrelevant"] for row in rows} == {1.0}


def test_a_trigger_sees_neither_the_kind_of_edit_nor_the_answer() -> None:
    seen = observable_features(hand_made())
    other = hand_made(condition="irrelevant", distance=64, carrier=(6, 7), old_answer="p", new_answer="q", old_ids=(7,))
    assert observable_features(other) == seen
    assert edit_features_of(other).items() - seen.items() == {
        ("is_irrelevant", 1.0),
        ("is_direct", 0.0),
        ("is_derived", 0.0),
    }
