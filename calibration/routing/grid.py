"""The fixed set of candidate policies (paper section 3.4 selects among a fixed set; its values are ours)."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import product
from math import inf, isnan

import numpy as np
from numpy.typing import NDArray

from cachemend.calibration.errors import CalibrationError
from cachemend.calibration.routing.policy import NO_REUSE, NO_VERIFICATION, Thresholds


@dataclass(frozen=True, kw_only=True)
class PolicyGrid:
    """All combinations of the values for which verification is nowhere stricter than direct reuse.

    Kept where ``tau_v <= tau_r``, ``tau_v_conflict >= tau_v``, ``delta_v >= delta_r`` and ``upsilon_v >= upsilon_r``:
    16,192 policies by default. Beside them, each direct rule without verification (96) and each verification rule
    without direct reuse (192), once.

    Attributes:
        tau_r, delta_r, upsilon_r: values for direct reuse.
        tau_v, delta_v, upsilon_v: values for verification.
        tau_v_conflict: similarity for verification with a conflict; None for the same as without.

    Raises:
        CalibrationError: an axis without values, with one twice, or with one that is not a number.
    """

    tau_r: tuple[float, ...] = (0.70, 0.80, 0.85, 0.90, 0.95, 0.98)
    delta_r: tuple[float, ...] = (0.02, 0.05, 0.10, 0.20)
    upsilon_r: tuple[float, ...] = (0.3, 0.5, 0.7, 0.9)
    tau_v: tuple[float, ...] = (0.5, 0.6, 0.7, 0.8)
    tau_v_conflict: tuple[float, ...] | None = (0.8, 0.9, 0.95, 0.98)
    delta_v: tuple[float, ...] = (0.3, 0.5, 0.7, 1.0)
    upsilon_v: tuple[float, ...] = (0.8, 0.95, 1.0)

    def __post_init__(self) -> None:
        for field in fields(self):
            axis = getattr(self, field.name)
            if axis is None:
                continue
            if not axis or len(set(axis)) < len(axis) or any(map(isnan, axis)):
                raise CalibrationError(f"the policy grid's {field.name} is {axis}; give distinct numbers")
            if field.name.startswith("tau") and inf in axis:
                raise CalibrationError(f"the policy grid's {field.name} holds inf; rules that are off are added anyway")

    @cached_property
    def direct(self) -> NDArray[np.float64]:
        """``tau_r, delta_r, upsilon_r`` of each direct rule, the strictest first, shape ``[a, 3]``; row 0 is off."""
        rules = product(self.tau_r, self.delta_r, self.upsilon_r)
        return np.array([NO_REUSE, *sorted(rules, key=lambda rule: (-rule[0], *rule[1:]))])

    @cached_property
    def verify(self) -> NDArray[np.float64]:
        """``tau_v, tau_v_conflict, delta_v, upsilon_v``, the strictest first, shape ``[b, 4]``; row 0 is off."""
        similarities = (
            [(tau, tau) for tau in self.tau_v]
            if self.tau_v_conflict is None
            else [(tau, conflict) for tau, conflict in product(self.tau_v, self.tau_v_conflict) if conflict >= tau]
        )
        rules = [(*taus, *limits) for taus, limits in product(similarities, product(self.delta_v, self.upsilon_v))]
        return np.array([NO_VERIFICATION, *sorted(rules, key=lambda rule: (-rule[0], -rule[1], *rule[2:]))])

    @cached_property
    def allowed(self) -> NDArray[np.bool_]:
        """Which direct rule goes with which verification rule, shape ``[a, b]``.

        In row-major order, policies come in the order in which ties between them are broken: larger ``tau_r``,
        smaller ``delta_r``, smaller ``upsilon_r``, larger ``tau_v``, larger ``tau_v_conflict``, smaller ``delta_v``,
        smaller ``upsilon_v``.
        """
        tau_r, delta_r, upsilon_r = self.direct.T[:, :, None]
        tau_v, _, delta_v, upsilon_v = self.verify.T[:, None, :]
        allowed: NDArray[np.bool_] = (tau_v <= tau_r) & (delta_v >= delta_r) & (upsilon_v >= upsilon_r)
        allowed[0, :] = allowed[:, 0] = True
        allowed[0, 0] = False
        return allowed

    def __len__(self) -> int:
        return int(self.allowed.sum())

    def __iter__(self) -> Iterator[Thresholds]:
        """All policies, in the order of `allowed`."""
        for a, b in np.argwhere(self.allowed).tolist():
            yield self.policy(a, b)

    def policy(self, a: int, b: int) -> Thresholds:
        """The policy of direct rule `a` and verification rule `b`."""
        return Thresholds(*self.direct[a].tolist(), *self.verify[b].tolist())


DEFAULT_GRID = PolicyGrid()
