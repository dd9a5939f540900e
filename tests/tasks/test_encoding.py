"""Sentence vectors against plain pooling, one text at a time."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from cachemend.repair_core.errors import InputError
from cachemend.tasks.encoding import MAX_TOKENS, NAME, Encoder, encoder_folder, load_encoder

TEXTS = [
    "Book a table for two in San Jose.",
    "book a TABLE for two in San Jose",
    "Cancel order #W123?",
    "",
    "Réserver une table, s'il vous plaît.",
    "word " * 400,
    "Cancel order #W123?",
]


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return load_encoder()


def test_vectors_are_the_mean_of_the_token_states(encoder: Encoder) -> None:
    model, tokenizer = (
        AutoModel.from_pretrained(encoder_folder()).eval(),
        AutoTokenizer.from_pretrained(encoder_folder()),
    )
    found = encoder.encode(TEXTS)
    assert found.shape == (len(TEXTS), 384)
    assert found.dtype == np.float32
    for text, vector in zip(TEXTS, found, strict=True):
        ids = tokenizer(text, return_tensors="pt", truncation=True, max_length=256, padding=False)
        with torch.no_grad():
            states = model(**ids).last_hidden_state[0]
        mean = states.mean(dim=0).numpy()
        assert np.abs(vector - mean / np.linalg.norm(mean)).max() < 1e-5
    assert (encoder.name, MAX_TOKENS) == ("all-MiniLM-L6-v2", 256)


def test_neither_neighbours_nor_order_change_a_vector(encoder: Encoder) -> None:
    together = encoder.encode(TEXTS)
    alone = np.concatenate([encoder.encode([text]) for text in TEXTS])
    assert np.abs(together - alone).max() < 1e-5
    assert np.abs(encoder.encode(TEXTS[::-1])[::-1] - together).max() < 1e-5
    assert np.array_equal(together[2], together[6])


def test_vectors_have_length_1_and_meaning(encoder: Encoder) -> None:
    vectors = encoder.encode(TEXTS)
    assert np.abs(np.linalg.norm(vectors, axis=1) - 1).max() < 1e-5
    assert vectors[0] @ vectors[1] > 0.9 > 0.5 > vectors[0] @ vectors[2]


def test_texts_without_words_share_a_vector(encoder: Encoder) -> None:
    empty = encoder.encode(["", " ", "\n"])
    assert np.isfinite(empty).all()
    assert np.abs(empty - empty[0]).max() < 1e-6
    assert encoder.encode([]).shape == (0, 384)


def test_equal_texts_are_encoded_once(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = []
    pooled = Encoder._pooled
    monkeypatch.setattr(Encoder, "_pooled", lambda self, batch: rows.extend(batch) or pooled(self, batch))
    encoder.encode(["a", "b", "a", "a"])
    assert len(rows) == 2


def test_a_folder_is_taken_and_nothing_else_is_guessed(encoder: Encoder, tmp_path: Path) -> None:
    folder = tmp_path / NAME
    folder.symlink_to(encoder_folder())
    again = load_encoder(str(folder))
    assert (again.name, again.fingerprint) == (NAME, encoder.fingerprint)
    with pytest.raises(InputError, match="cannot be loaded"):
        load_encoder(str(tmp_path / "absent"))
