"""Verdicts that follow from the labels: a ceiling to diagnose with, never a result."""

import numpy as np
from numpy.typing import ArrayLike

from cachemend.calibration.verdicts import Verdict


class LabelOracle:
    """A verifier that knows the labels.

    It is no source of verdicts: it takes labels where those take candidates, under a name of its own, so that it
    cannot stand in for one by mistake.
    """

    diagnostic = True
    fingerprint = "label-oracle"

    def diagnostic_verdicts(self, valid: ArrayLike) -> list[Verdict]:
        """Return VALID where the label says valid, else INVALID.

        Args:
            valid: whether reuse is valid, bool ``[n]``.

        Raises:
            ValueError: labels that are not booleans.
        """
        labels = np.asarray(valid)
        if labels.ndim != 1 or (labels.size and labels.dtype != np.bool_):
            raise ValueError(f"labels have shape {labels.shape} and type {labels.dtype}; give booleans, [n]")
        return [Verdict.VALID if label else Verdict.INVALID for label in labels.tolist()]
