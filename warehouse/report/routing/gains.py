"""What the router gains over a comparator, in words: on which side of zero the intervals of both differences lie."""

from typing import NamedTuple

from cachemend.warehouse.report.formats import p_clause, plural, signed
from cachemend.warehouse.report.routing.analysis import Comparison

GAIN, TRADE, NONE = "gain", "trade", "none"

_VERDICTS = {
    (1, 1): (GAIN, "a gain on both: more valid hits and a lower share of invalid ones"),
    (1, 0): (GAIN, "a gain in valid hits; no difference in false hits is shown"),
    (0, 1): (GAIN, "a gain in safety; no difference in valid hits is shown"),
    (1, -1): (TRADE, "a trade, no gain: more valid hits and more false ones"),
    (-1, 1): (TRADE, "a trade, no gain: fewer false hits and fewer valid ones"),
    (0, 0): (NONE, "no gain is shown"),
    (-1, 0): (NONE, "no gain: fewer valid hits, and no difference in false hits is shown"),
    (0, -1): (NONE, "no gain: more false hits, and no difference in valid hits is shown"),
    (-1, -1): (NONE, "no gain: fewer valid hits and more false ones"),
}


class Gain(NamedTuple):
    """`kind` is one of GAIN, TRADE and NONE; `sentence` gives the differences, intervals and tests behind it."""

    kind: str
    sentence: str


def gain(test: Comparison, name: str) -> Gain:
    """Judge a comparison by its intervals; one without intervals shows no gain.

    Args:
        test: the router's reference minus the comparator.
        name: the comparator in running text.
    """
    kind, verdict = _VERDICTS[_side(test.d_vchr_low, test.d_vchr_high), -_side(test.d_fh_low, test.d_fh_high)]
    vchr = _difference("VCHR", test.d_vchr, test.d_vchr_low, test.d_vchr_high)
    fh = _difference("FH", test.d_fh, test.d_fh_low, test.d_fh_high)
    tests = "" if test.p_joint is None else f"; joint {p_clause(test.p_joint)}"
    if test.p_holm is not None:
        tests += f", after Holm over {plural(test.family_size, 'comparison')} {p_clause(test.p_holm)}"
    return Gain(kind, f"Against {name}: {vchr}, {fh}{tests}: {verdict}.")


def _side(low: float | None, high: float | None) -> int:
    """1 where an interval lies above 0, -1 where it lies below, else 0."""
    if low is None or high is None:
        return 0
    return int(low > 0) - int(high < 0)


def _difference(rate: str, value: float | None, low: float | None, high: float | None) -> str:
    point, ends = _points(value), (_points(low), _points(high))
    return f"{rate} {signed(point, 2)} points (95 % interval {signed(ends[0], 2)} to {signed(ends[1], 2)})"


def _points(value: float | None) -> float | None:
    return None if value is None else 100 * value
