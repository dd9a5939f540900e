"""Small suffixes with given scores, units and tokens, for rules that choose among units."""

from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

from cachemend.repair_core.units import Unit

from support.fixed_context import FixedContext

WORDS = ("amber", "code", "river", "the", "falcon", "7", "is", "Amber")


@st.composite
def scored(draw: st.DrawFn, longest: int = 40) -> FixedContext:
    """Few distinct scores, so that ties are common; token 1.25 is one of the query's."""
    length = draw(st.integers(1, longest))
    raw = draw(st.lists(st.sampled_from([-0.5, 0.0, 0.125, 0.25, 0.75, 1.25]), min_size=length, max_size=length))
    cuts = sorted(draw(st.sets(st.integers(1, length))) | {0, length})
    units = tuple(Unit(a, b) for a, b in pairwise(cuts))
    texts = tuple(" ".join(draw(st.lists(st.sampled_from(WORDS), max_size=5))) for _ in units)
    query = " ".join(draw(st.lists(st.sampled_from(WORDS), max_size=5)))
    return given_context(raw, units, texts, query)


def given_context(
    raw: list[float], units: tuple[Unit, ...], texts: tuple[str, ...] | None = None, query: str = ""
) -> FixedContext:
    """Suffix token i has id i; those with a score of 1.25 are the query's."""
    context = FixedContext(np.array(raw), units, texts or ("",) * len(units), query)
    context.query_ids = tuple(i for i, score in enumerate(raw) if score == 1.25)  # type: ignore[attr-defined]
    return context
