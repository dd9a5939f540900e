"""Embedding features against cosines written out token by token."""

import math
from pathlib import Path

import pytest

from cachemend.repair_core import load_model
from cachemend.tasks.edit_embeddings import embedding_features

from support.tiny_checkpoint import save_tiny
from support.tiny_edits import retained_cases


def _cosine(a: list[float], b: list[float]) -> float:
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    return dot / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def test_features_are_the_cosines_they_are_named_for(tmp_path: Path) -> None:
    loaded = load_model(str(save_tiny(tmp_path, initializer_range=0.2)))
    case = retained_cases(loaded, 1)[0]
    table = loaded.model.get_input_embeddings().weight.double().tolist()
    found = embedding_features(loaded.model, case)
    start, stop = case.span

    def mean(ids: tuple[int, ...]) -> list[float]:
        return [sum(column) / len(ids) for column in zip(*(table[i] for i in ids), strict=True)]

    def relevance(token: int) -> float:
        if token in case.relevance_ids:
            return 1.25
        return max(_cosine(table[token], table[q]) for q in case.relevance_ids)

    old, new = case.original_ids[start:stop], case.edited_ids[start:stop]
    assert found["old_new_cosine"] == pytest.approx(_cosine(mean(old), mean(new)))
    assert found["new_span_question_cosine"] == pytest.approx(_cosine(mean(new), mean(case.relevance_ids)))
    assert found["old_span_relevance"] == pytest.approx(max(map(relevance, old)), abs=1e-5)
    assert found["new_span_relevance"] == pytest.approx(max(map(relevance, new)), abs=1e-5)
    inside = [relevance(token) for token in case.edited_ids[start : case.block_stop]]
    assert found["block_relevance"] == pytest.approx(sum(inside) / len(inside), abs=1e-5)
