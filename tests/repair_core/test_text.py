"""Spans of token histories, whether or not they retokenize."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerBase

from cachemend.repair_core.models import load_tokenizer
from cachemend.repair_core.text import token_text

TOKENIZER = load_tokenizer("smollm2-135m")


def _ids(text: str) -> list[int]:
    return TOKENIZER(text, add_special_tokens=False)["input_ids"]


def _check(tokenizer: PreTrainedTokenizerBase, ids: list[int]) -> None:
    found = token_text(tokenizer, ids)
    assert len(found.spans) == len(ids)
    edges = [edge for span in found.spans for edge in span]
    assert all(0 <= edge <= len(found.text) for edge in edges)
    assert [s.stop for s in found.spans] == sorted(s.stop for s in found.spans)


@pytest.mark.parametrize("text", ["Plain words, twice.", "naïve café", "emoji 🎉 and 日本語。", "tabs\tand\n\nlines"])
def test_text_that_retokenizes_keeps_its_offsets(text: str) -> None:
    found = token_text(TOKENIZER, _ids(text))
    assert found.text == text
    offsets = TOKENIZER(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    assert [tuple(span) for span in found.spans] == offsets


def test_an_end_that_would_merge_is_decoded_token_by_token() -> None:
    """Two line breaks as two tokens retokenize as one."""
    ids = [*_ids("First part. Second part."), *_ids("\n"), *_ids("\n")]
    found = token_text(TOKENIZER, ids)
    assert found.text == "First part. Second part.\n\n"
    pieces = [found.text[a:b] for a, b in found.spans]
    assert "".join(pieces) == found.text
    assert pieces[-2:] == ["\n", "\n"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 49151), min_size=1, max_size=30))
def test_any_history_gets_ordered_spans(ids: list[int]) -> None:
    _check(TOKENIZER, ids)
