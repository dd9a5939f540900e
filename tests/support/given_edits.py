"""Contexts of an edit whose texts, units and scores are given instead of computed."""

from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

from cachemend.repair_core import (
    Replacement,
    StaleContext,
)
from cachemend.repair_core.signals.query_attention import QueryAttention
from cachemend.repair_core.text import Span, TokenText
from cachemend.repair_core.units import Segmentation, Unit

TEXTS = (
    "word",
    " word",
    ".",
    " |",
    "\n",
    "\n\n",
    ".\n",
    " ",
    "-",
    "12.",
    "3)",
    "  \t",
    "",
    "?!",
    "a.",
    "•",
    "x\n",
    "]}",
)


class Given:
    """A context whose texts, units and scores are given instead of computed."""

    def __init__(
        self, texts: list[str], a: int, b: int, old: int = 1, scores: np.ndarray | None = None, unit: int = 9
    ) -> None:
        n, stops = len(texts), np.cumsum([len(text) for text in texts], dtype=int)
        new = range(100, 100 + b - a)
        original = [*range(a), *range(50, 50 + old), *range(200, 200 + n - b)]
        self.edit = Replacement(original_ids=original, start=a, stop=a + old, replacement_ids=new)
        self.context = StaleContext(None, None, self.edit, "", case_id="case-1")  # type: ignore[arg-type]
        spans = tuple(Span(int(stop) - len(text), int(stop)) for text, stop in zip(texts, stops, strict=True))
        units = tuple(Unit(*pair) for pair in pairwise(sorted({*range(0, n - b, unit), n - b})))
        whole = np.zeros(n) if scores is None else scores
        pieces = tuple("".join(texts[b + u.start : b + u.stop]) for u in units)
        vars(self.context).update(
            edited_text=TokenText("".join(texts), spans),
            segmentation=Segmentation(units, pieces),
            query_attention=QueryAttention(whole, whole),
            relevance=whole[b:],
        )


@st.composite
def given_contexts(draw: st.DrawFn) -> tuple[Given, list[str], int, int]:
    n = draw(st.integers(3, 40))
    a = draw(st.integers(0, n - 2))
    b = draw(st.integers(a + 1, min(n - 1, a + 6)))
    texts = draw(st.lists(st.sampled_from(TEXTS), min_size=n, max_size=n))
    # Few distinct values, so that ties are common; no difference is a multiple of 1/16, the step of the envelope's
    # decay, where equal sums would be told apart by their rounding.
    raw = draw(st.lists(st.sampled_from([0.0, 0.11, 0.53, 1.27]), min_size=n, max_size=n))
    return Given(texts, a, b, draw(st.integers(1, 6)), np.array(raw), draw(st.integers(1, 12))), texts, a, b
