"""The monotone map from mismatch to the observed rate of invalid reuse, with its uncertainty (paper appendix C)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cachemend.calibration.errors import CalibrationError
from cachemend.calibration.intervals import wilson_interval
from cachemend.calibration.routing.json_fields import checked_fields, checked_list

INITIAL_BLOCKS = 6
CONFIDENCE = 0.90


class RiskBlock(NamedTuple):
    """A range of mismatch over which the risk is constant.

    Attributes:
        low, high: least and greatest mismatch of the samples in it.
        n: samples in it.
        invalid: those whose reuse is invalid.
    """

    low: float
    high: float
    n: int
    invalid: int


class Risk(NamedTuple):
    """What the map says of mismatch scores, each of shape ``[n]``.

    Attributes:
        rate: observed rate of invalid reuse, K, from 0 to 1.
        u_cal: width of the two-sided 90 % Wilson interval of that rate, from 0 to 1.
        block: index of the block.
    """

    rate: NDArray[np.float64]
    u_cal: NDArray[np.float64]
    block: NDArray[np.intp]


@dataclass(frozen=True, kw_only=True)
class RiskMap:
    """A nondecreasing step function of the mismatch.

    Attributes:
        blocks: in ascending order of mismatch; they do not overlap, and their rates never fall.

    Raises:
        CalibrationError: no blocks, or blocks that are not so.
    """

    blocks: tuple[RiskBlock, ...]

    def __post_init__(self) -> None:
        if not self.blocks:
            raise CalibrationError("the risk map has no blocks; fit it on at least one sample")
        for at, block in enumerate(self.blocks):
            if not 0 <= block.low <= block.high <= 1:
                raise CalibrationError(f"risk_map.blocks[{at}] is {block}; 0 <= low <= high <= 1 must hold")
            if not (block.n >= 1 and 0 <= block.invalid <= block.n):
                raise CalibrationError(f"risk_map.blocks[{at}] is {block}; n >= 1 and 0 <= invalid <= n must hold")
        for at, (left, right) in enumerate(pairwise(self.blocks)):
            if left.high >= right.low or _falls(left, right):
                raise CalibrationError(f"risk_map.blocks[{at + 1}] lies below the block before it, in mismatch or rate")

    @classmethod
    def fit(cls, d_match: ArrayLike, valid: ArrayLike) -> "RiskMap":
        """Estimate the map: at most six equal-frequency blocks, then pool adjacent violators.

        The samples in order of mismatch are cut after ``floor(k * n / 6)`` of them, for k = 1 to 6; a block whose last
        mismatch goes on beyond its cut is extended through the ties, and one left without samples vanishes. Blocks
        are pooled only where the rate falls: equal neighbours stay apart and keep their own n. The order of the
        samples does not matter.

        Args:
            d_match: mismatch from 0 to 1, shape ``[n]``.
            valid: whether reuse is valid, bool ``[n]``.

        Raises:
            CalibrationError: no samples, or a mismatch that is not a number from 0 to 1.
            ValueError: lengths that differ, or labels that are not bool.
        """
        d, labels = _mismatch(d_match), np.asarray(valid)
        if labels.shape != d.shape or labels.dtype != np.bool_:
            raise ValueError(f"valid has shape {labels.shape} and type {labels.dtype}; give {d.size} booleans")
        if not d.size:
            raise CalibrationError("the risk map got no samples; it needs at least one labelled pair")
        order = np.argsort(d, kind="stable")
        d, invalid = d[order], ~labels[order]
        cuts = np.arange(1, INITIAL_BLOCKS + 1) * d.size // INITIAL_BLOCKS
        stops = np.unique(np.searchsorted(d, d[cuts[cuts > 0] - 1], side="right")).tolist()
        blocks: list[RiskBlock] = []
        for start, stop in zip([0, *stops], stops, strict=False):
            part = invalid[start:stop]
            blocks.append(RiskBlock(float(d[start]), float(d[stop - 1]), stop - start, int(part.sum())))
            while len(blocks) > 1 and _falls(*blocks[-2:]):
                blocks[-2:] = [_pooled(*blocks[-2:])]
        return cls(blocks=tuple(blocks))

    def predict(self, d_match: ArrayLike) -> Risk:
        """Look mismatch scores up.

        A value between two blocks takes the upper one, a value outside all blocks the nearest.

        Args:
            d_match: mismatch from 0 to 1, shape ``[n]``.

        Raises:
            CalibrationError: a mismatch that is not a number from 0 to 1.
        """
        highs = [block.high for block in self.blocks[:-1]]
        block = np.searchsorted(highs, _mismatch(d_match), side="left")
        return Risk(self._rates[block], self._widths[block], block)

    @cached_property
    def _rates(self) -> NDArray[np.float64]:
        return np.array([block.invalid / block.n for block in self.blocks])

    @cached_property
    def _widths(self) -> NDArray[np.float64]:
        intervals = [wilson_interval(block.invalid, block.n, CONFIDENCE) for block in self.blocks]
        return np.array([interval.high - interval.low for interval in intervals])

    def to_dict(self) -> dict[str, Any]:
        """The map as plain JSON values."""
        return {"blocks": [block._asdict() for block in self.blocks]}

    @classmethod
    def from_dict(cls, content: object) -> "RiskMap":
        """Read what `to_dict` made.

        Raises:
            CalibrationError: fields that are missing, unknown or of another type, or blocks that make no map.
        """
        blocks = checked_list("risk_map.blocks", checked_fields("risk_map", content, {"blocks": list})["blocks"])
        types = RiskBlock.__annotations__
        return cls(
            blocks=tuple(
                RiskBlock(**checked_fields(f"risk_map.blocks[{at}]", block, types)) for at, block in enumerate(blocks)
            )
        )


def _falls(left: RiskBlock, right: RiskBlock) -> bool:
    """Whether the rate falls; in whole numbers, so that equal rates of different n are equal."""
    return left.invalid * right.n > right.invalid * left.n


def _pooled(left: RiskBlock, right: RiskBlock) -> RiskBlock:
    return RiskBlock(left.low, right.high, left.n + right.n, left.invalid + right.invalid)


def _mismatch(values: ArrayLike | Sequence[float]) -> NDArray[np.float64]:
    d = np.asarray(values, dtype=np.float64)
    if d.ndim != 1:
        raise ValueError(f"d_match has shape {d.shape}; it must be one-dimensional")
    outside = np.flatnonzero(~((d >= 0) & (d <= 1)))
    if outside.size:
        raise CalibrationError(f"d_match of sample {outside[0]} is {d[outside[0]]}; it must be from 0 to 1")
    return d
