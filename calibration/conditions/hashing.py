"""Signed hashed vectors of records, made as scikit-learn's HashingVectorizer makes them, without its cost per call.

Source: paper appendix B ("frozen signed lexical-hashing representation with cosine similarity").
"""

import re
from itertools import pairwise
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import murmurhash3_32

N_FEATURES = 2**18
NGRAM_RANGE = (1, 2)
TOKEN_PATTERN = r"[\w#:./-]+"
_TOKENS = re.compile(TOKEN_PATTERN)


class Sparse(NamedTuple):
    """A vector of unit length (or zero): its places, in ascending order, and the values there."""

    places: NDArray[np.int32]
    values: NDArray[np.float64]


def hashed(text: str) -> Sparse:
    """Return the vector of a text: its words and pairs of words, signed counts, L2 norm.

    Equal to ``HashingVectorizer(n_features=2**18, ngram_range=(1, 2), alternate_sign=True, norm="l2",
    token_pattern=TOKEN_PATTERN)`` up to rounding.
    """
    tokens = _TOKENS.findall(text.lower())
    counts: dict[int, int] = {}
    for feature in (*tokens, *map(" ".join, pairwise(tokens))):
        code = murmurhash3_32(feature)
        place = abs(code) % N_FEATURES
        counts[place] = counts.get(place, 0) + (1 if code >= 0 else -1)
    norm = sqrt(sum(count * count for count in counts.values())) or 1.0
    places = sorted(counts)
    values = np.array([counts[place] / norm for place in places], dtype=np.float64)
    places_array = np.array(places, dtype=np.int32)
    places_array.setflags(write=False)
    values.setflags(write=False)
    return Sparse(places_array, values)
