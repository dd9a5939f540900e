"""A repair context whose signals are given."""

import numpy as np

from cachemend.repair_core import Deletion
from cachemend.repair_core.units import Segmentation, Unit


class FixedContext:
    """A context whose scores and units are given instead of computed."""

    def __init__(
        self, relevance: np.ndarray, units: tuple[Unit, ...], texts: tuple[str, ...], query: str, prefix: int = 3
    ) -> None:
        length = len(relevance)
        self.deletion = Deletion(prefix_ids=range(prefix), deleted_ids=(1,), suffix_ids=range(length))
        self.relevance = relevance
        self.segmentation = Segmentation(units, texts)
        self.query = query
        self.case_id = "case-1"
