"""All baselines by method and setting, behind one interface: fit on the calibration subset, then decide on the test."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from numpy.typing import ArrayLike

from cachemend.calibration.baselines import cache_me, conditional_ppl, gptcache, similarity_verifier, vcache
from cachemend.calibration.baselines.contextcache import contextcache
from cachemend.calibration.baselines.evidence import Evidence, Rule
from cachemend.calibration.baselines.groundedcache import fit_groundedcache
from cachemend.calibration.baselines.simple import exact_match, no_cache
from cachemend.calibration.baselines.vcache_online import vcache_online
from cachemend.calibration.errors import CalibrationError

Fit = Callable[[Evidence, ArrayLike], Rule]


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """One method at one operating point.

    Attributes:
        method, setting: as in the result tables.
        fit: returns the rule, from evidence and labels of the calibration subset. The rule sees evidence only, so
            that no test label reaches it; fixed rules do not look at the calibration subset either.
    """

    method: str
    setting: str
    fit: Fit


def _fixed(method: str, setting: str, rule: Rule) -> Baseline:
    def fit(calibration: Evidence, valid: ArrayLike) -> Rule:  # noqa: ARG001
        return rule

    return Baseline(method=method, setting=setting, fit=fit)


def _at(method: str, rule: Callable[..., object], taus: tuple[float, ...]) -> list[Baseline]:
    return [_fixed(method, f"tau={tau:g}", partial(rule, tau=tau)) for tau in taus]  # type: ignore[arg-type]


_ALL = (
    *_at("gptcache", gptcache.gptcache, gptcache.TAUS),
    *_at("vcache", vcache.vcache, vcache.TAUS),
    _fixed("vcache", "online", vcache_online),
    *_at("cache-me", cache_me.cache_me, cache_me.TAUS),
    _fixed("contextcache", "default", contextcache),
    *(
        Baseline(
            method="conditional-ppl",
            setting=criterion,
            fit=partial(conditional_ppl.fit_conditional_ppl, criterion=criterion),
        )
        for criterion in conditional_ppl.CRITERIA
    ),
    Baseline(method="groundedcache", setting="selected", fit=fit_groundedcache),
    _fixed("exact-match", "query", exact_match),
    *(
        Baseline(
            method="similarity-verifier",
            setting=f"alpha={target.alpha:g} B={target.budget:g}",
            fit=partial(similarity_verifier.fit_similarity_verifier, target=target),
        )
        for target in similarity_verifier.TARGETS
    ),
    _fixed("no-cache", "reference", no_cache),
)

BASELINES: Mapping[tuple[str, str], Baseline] = MappingProxyType({(each.method, each.setting): each for each in _ALL})
"""By (method, setting), in the order of tables."""


def baseline(method: str, setting: str) -> Baseline:
    """Return a baseline.

    Raises:
        CalibrationError: there is none of this method and setting.
    """
    if (method, setting) not in BASELINES:
        known = ", ".join(f"{name} {point}" for name, point in BASELINES)
        raise CalibrationError(f"baseline {method!r} has no setting {setting!r}; known: {known}")
    return BASELINES[method, setting]
