"""A repair context whose signals are given."""

import numpy as np
import torch

from cachemend.repair_core import Deletion
from cachemend.repair_core.caches import Rows, plain_cache
from cachemend.repair_core.context import AuxiliaryScores
from cachemend.repair_core.signals.query_attention import QueryAttention
from cachemend.repair_core.text import Span
from cachemend.repair_core.units import Segmentation, Unit


class FixedContext:
    """A context whose scores and units are given instead of computed.

    Every signal has the scores of `relevance`, the states by their squared difference from zero.
    """

    def __init__(
        self, relevance: np.ndarray, units: tuple[Unit, ...], texts: tuple[str, ...], query: str, prefix: int = 3
    ) -> None:
        length = len(relevance)
        self.deletion = Deletion(prefix_ids=range(prefix), deleted_ids=(1,), suffix_ids=range(length))
        self.relevance = relevance
        self.segmentation = Segmentation(units, texts)
        self.query = query
        self.case_id = "case-1"
        whole = np.concatenate((np.zeros(prefix), relevance))
        self.query_attention = QueryAttention(whole, whole)
        self.shallow_query_attention = whole
        self.deleted_mass = self.low_pass_strength = relevance
        spans = tuple(Span(i, i + 1) for i in range(length))
        self.auxiliary_scores = AuxiliaryScores(relevance, spans, spans)
        keys = torch.tensor(whole).view(1, 1, -1, 1)
        zeros = torch.zeros_like(keys)
        self.shallow = [Rows(keys, zeros)] * 2
        self.shifted = plain_cache([Rows(zeros, zeros)] * 2)
        self.clean = plain_cache(self.shallow)
