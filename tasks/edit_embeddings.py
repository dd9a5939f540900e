"""What the input embeddings say of an edit before any layer runs: features of the severity study."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from cachemend.datasets.edit_case import EditCase
from cachemend.repair_core.relevance import embedding_relevance


def embedding_features(model: nn.Module, case: EditCase) -> dict[str, float]:
    """Return cosines of old span, new span, question and context, by name; no answer is looked at.

    Relevances are those of `embedding_relevance`: the best cosine of a token to one of the question.
    """
    start, stop = case.span
    old, new = case.original_ids[start:stop], case.edited_ids[start:stop]
    relevance = embedding_relevance(model, case.edited_ids, case.relevance_ids)
    block, after = relevance[start : case.block_stop], relevance[case.block_stop :]
    return {
        "old_new_cosine": _cosine(model, old, new),
        "old_span_relevance": float(embedding_relevance(model, old, case.relevance_ids).max()),
        "new_span_relevance": float(relevance[start:stop].max()),
        "new_span_question_cosine": _cosine(model, new, case.relevance_ids),
        "block_relevance": float(block.mean()),
        "downstream_relevance": float(after.mean()) if after.size else 0.0,
        "tokens_as_relevant_as_span": float(np.mean(relevance >= relevance[start:stop].max())),
    }


def _cosine(model: nn.Module, a: Sequence[int], b: Sequence[int]) -> float:
    """Cosine of the mean input embeddings of two token lists; 0 where one is empty."""
    if not a or not b:
        return 0.0
    table: torch.Tensor = model.get_input_embeddings().weight  # type: ignore[operator]
    left, right = (table[torch.tensor(ids, device=table.device)].detach().double().mean(dim=0) for ids in (a, b))
    return float(torch.nn.functional.cosine_similarity(left, right, dim=0))
