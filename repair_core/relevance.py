"""Query relevance of suffix tokens without a model forward."""

import math
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

Scores = npt.NDArray[np.float64]

BLOCK = 1024
IDENTITY_BONUS = 0.25
# Scores are rounded to this step before ranking, so that ties do not hang on rounding.
QUANTUM = 2.0**-20
BM25_K1 = 1.2
BM25_B = 0.75
_TERM = re.compile(r"[A-Za-z0-9]+")


def embedding_relevance(model: nn.Module, suffix_ids: Sequence[int], query_ids: Sequence[int]) -> Scores:
    """Return r [S]: the best cosine match to a query token, plus 0.25 for a token of the query (paper Eq. 1, 7).

    Args:
        model: its frozen input embedding table is read, no layer runs.
        suffix_ids: S token ids.
        query_ids: token ids of the bare query, no special tokens; without any, all scores are 0.

    Scores are computed in FP32 over blocks of 1,024 tokens, cosine exactly 1 for equal ids, then quantised.
    """
    if not len(query_ids) or not len(suffix_ids):
        return np.zeros(len(suffix_ids))
    table: torch.Tensor = model.get_input_embeddings().weight  # type: ignore[operator]
    unique_query = torch.tensor(sorted(set(query_ids)), device=table.device)
    query = _unit_rows(table, unique_query)
    # Equal tokens have equal scores, so each distinct suffix token is scored once.
    tokens, inverse = np.unique(np.asarray(suffix_ids, dtype=np.int64), return_inverse=True)
    best = (
        torch.cat(
            [
                (_unit_rows(table, block) @ query.T).max(dim=1).values.cpu()
                for block in torch.from_numpy(tokens).to(table.device).split(BLOCK)
            ]
        )
        .double()
        .numpy()
    )
    identical = np.isin(tokens, np.asarray(list(query_ids)))
    scores = np.where(identical, 1.0 + IDENTITY_BONUS, best)
    return (np.rint(scores / QUANTUM) * QUANTUM)[inverse]


def _unit_rows(table: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        rows = table[ids].float()
        return rows / rows.norm(dim=1, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny)


def terms(text: str) -> list[str]:
    """ASCII-alphanumeric terms, lowercased after they are found: no other letter may turn into one."""
    return [term.lower() for term in _TERM.findall(text)]


def bm25_unit_scores(unit_texts: Sequence[str], query: str) -> Scores:
    """Return the BM25 score of every unit (paper section 7.4: k1 = 1.2, b = 0.75, query multiplicity counts).

    Document statistics are taken over the suffix units; all scores are 0 when they hold no term.
    """
    documents = [Counter(terms(text)) for text in unit_texts]
    lengths = [sum(document.values()) for document in documents]
    average = sum(lengths) / len(lengths) if lengths else 0.0
    scores = np.zeros(len(documents))
    if average == 0:
        return scores
    for term, multiplicity in Counter(terms(query)).items():
        frequency = sum(term in document for document in documents)
        weight = math.log(1 + (len(documents) - frequency + 0.5) / (frequency + 0.5))
        for index, document in enumerate(documents):
            count = document[term]
            norm = count + BM25_K1 * (1 - BM25_B + BM25_B * lengths[index] / average)
            scores[index] += multiplicity * weight * count * (BM25_K1 + 1) / norm
    return scores
