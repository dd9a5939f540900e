"""What must hold of every refresh, checked on the real run."""

from collections.abc import Sequence

import numpy as np

from cachemend.repair_core.caches import Rows
from cachemend.repair_core.intervals import Positions


def changed_rows(before: Sequence[Rows], after: Sequence[Rows]) -> Positions:
    """Positions whose K or V bits differ between two caches of equal shape, in any layer or sequence."""
    changed = None
    for old, new in zip(before, after, strict=True):
        for a, b in zip(old, new, strict=True):
            bits = (a != b).any(dim=-1).any(dim=1).any(dim=0).cpu()
            changed = bits if changed is None else changed | bits
    return np.flatnonzero(changed.numpy()) if changed is not None else np.empty(0, dtype=np.int64)


def caches_equal(a: Sequence[Rows], b: Sequence[Rows]) -> bool:
    """Whether two caches hold the same bits."""
    return changed_rows(a, b).size == 0
