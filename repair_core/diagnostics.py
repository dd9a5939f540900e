"""Distances between first-token distributions (paper section 11)."""

import numpy as np
import numpy.typing as npt

Distribution = npt.NDArray[np.float64]


def total_variation(p: Distribution, q: Distribution) -> float:
    """TV(p, q) = sum |p - q| / 2."""
    return float(np.abs(p - q).sum() / 2)


def normalized_recovery(arm: Distribution, clean: Distribution, dirty: Distribution) -> float | None:
    """NR_TV = 1 - TV(arm, clean) / TV(dirty, clean), unclipped; None at a zero denominator (Eq. 14)."""
    reference = total_variation(dirty, clean)
    return None if reference == 0 else 1 - total_variation(arm, clean) / reference
