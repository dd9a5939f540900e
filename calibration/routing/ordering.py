"""The canonical request order of a replay: no score, label or file order can shape it."""

from collections import Counter
from collections.abc import Sequence
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from cachemend.calibration.errors import CalibrationError


def canonical_order(pair_ids: Sequence[str], seed: int) -> NDArray[np.intp]:
    """Return the order of pairs by the SHA-256 of ``seed|pair id``.

    Args:
        pair_ids: unique.
        seed: another seed gives another order.

    Returns:
        a permutation of ``0 .. n - 1``. Which pairs come before which does not depend on the other pairs.

    Raises:
        CalibrationError: a pair id that occurs twice.
    """
    if len(set(pair_ids)) < len(pair_ids):
        twice = Counter(pair_ids).most_common(1)[0][0]
        raise CalibrationError(f"pair id {twice!r} occurs twice; an order needs unique ids")
    keys = [sha256(f"{seed}|{pair_id}".encode("utf-8", "surrogatepass")).digest() for pair_id in pair_ids]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.intp)
