"""How good a verifier is on the candidates it was asked about (paper appendix H.2, Table 13)."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import hypergeom

from cachemend.calibration.arrays import flags
from cachemend.calibration.verdicts import Verdict

CONSTANT, CHANCE = "constant", "chance-level"
SIGNIFICANCE = 0.05


class VerifierQuality(NamedTuple):
    """Verdicts against labels.

    Attributes:
        n: verdicts.
        ta, tr, fa, fr: valid and accepted, invalid and rejected, invalid and accepted, valid and rejected. All but
            VALID rejects, failures too.
        agreement: ``(ta + tr) / n``.
        youden: accepted share of the valid minus that of the invalid, from -1 to 1; None where a kind is missing.
        p_chance: one-sided p of Fisher's exact test that it accepts valid candidates no more often than invalid ones
            (that Youden's index is not above 0); None where a kind is missing.
        flag: `CONSTANT` where it accepts all of several candidates or none, `CHANCE` where `p_chance` is 0.05 or
            more, else None.
        n_malformed: answers that are none of the three words.
        n_failed: questions without an answer, overflow included.
    """

    n: int
    ta: int
    tr: int
    fa: int
    fr: int
    agreement: float
    youden: float | None
    p_chance: float | None
    flag: str | None
    n_malformed: int
    n_failed: int


def verifier_quality(verdicts: Sequence[Verdict], valid: ArrayLike) -> VerifierQuality:
    """Compare verdicts with labels.

    Args:
        verdicts: of n candidates.
        valid: whether reuse is valid, shape ``[n]``.

    Raises:
        ValueError: no verdicts, lengths that differ, or labels other than 0 and 1.
    """
    good = flags("valid", valid)
    accepted = np.array([verdict.accepts for verdict in verdicts], dtype=bool)
    if accepted.shape != good.shape:
        raise ValueError(f"{len(verdicts)} verdicts and {len(good)} labels; there must be one of each per candidate")
    ta, fa = int((accepted & good).sum()), int((accepted & ~good).sum())
    fr, tr = int((~accepted & good).sum()), int((~accepted & ~good).sum())
    youden, p = _discrimination(ta, tr, fa, fr)
    kinds = list(verdicts)
    return VerifierQuality(
        n=len(kinds),
        ta=ta,
        tr=tr,
        fa=fa,
        fr=fr,
        agreement=(ta + tr) / len(kinds),
        youden=youden,
        p_chance=p,
        flag=_flag(accepted.sum(), len(kinds), p),
        n_malformed=kinds.count(Verdict.MALFORMED),
        n_failed=kinds.count(Verdict.FAILED) + kinds.count(Verdict.OVERFLOW),
    )


def _discrimination(ta: int, tr: int, fa: int, fr: int) -> tuple[float | None, float | None]:
    n_valid, n_invalid = ta + fr, fa + tr
    if not n_valid or not n_invalid:
        return None, None
    p = hypergeom.sf(ta - 1, n_valid + n_invalid, n_valid, ta + fa)
    return ta / n_valid - fa / n_invalid, min(1.0, float(p))


def _flag(accepted: int, n: int, p: float | None) -> str | None:
    if n > 1 and accepted in (0, n):
        return CONSTANT
    return CHANCE if p is not None and p >= SIGNIFICANCE else None
