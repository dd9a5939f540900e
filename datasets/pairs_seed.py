"""The balanced seed set: 360 pairs written for this project, 60 of each family, half of them valid.

Its scenarios are in the modules ``seed_<family>_...``. A label follows from the scenario alone: a request fits the
answer of its own side and not that of the side before (paper appendix A: "deterministic scenario transformations").
"""

from collections.abc import Iterator, Mapping

from cachemend.datasets import (
    seed_authorization_accounts,
    seed_authorization_rights,
    seed_collision_things,
    seed_collision_words,
    seed_dialogue_form,
    seed_dialogue_history,
    seed_freshness_dates,
    seed_freshness_versions,
    seed_refusal_purpose,
    seed_refusal_writes,
    seed_tools_limits,
    seed_tools_results,
)
from cachemend.datasets.pair import Pair
from cachemend.datasets.pair_build import SEED, Built, text_id
from cachemend.datasets.seed_kinds import Change, Wording
from cachemend.datasets.seed_scenario import Scenario, Side, Turn
from cachemend.datasets.seeded import draw

SCENARIOS: Mapping[str, tuple[Scenario, ...]] = {
    "dialogue-state": seed_dialogue_history.SCENARIOS + seed_dialogue_form.SCENARIOS,
    "tool-state": seed_tools_results.SCENARIOS + seed_tools_limits.SCENARIOS,
    "freshness": seed_freshness_dates.SCENARIOS + seed_freshness_versions.SCENARIOS,
    "refusal-validity": seed_refusal_writes.SCENARIOS + seed_refusal_purpose.SCENARIOS,
    "authorization": seed_authorization_accounts.SCENARIOS + seed_authorization_rights.SCENARIOS,
    "semantic-collision": seed_collision_words.SCENARIOS + seed_collision_things.SCENARIOS,
}
"""The scenarios of each family; each is one cluster."""

_SHORTENED = 0.7


def build_seed(*, seed: int = SEED) -> Built:
    """Return the seed set: always the same 360 pairs with the same ids, in an order drawn from `seed`.

    `rule` is the kind of change for an invalid pair and the kind of wording for a valid one (`seed_kinds`).
    """
    pairs = (
        pair
        for family, scenarios in SCENARIOS.items()
        for scenario in scenarios
        for pair in _scenario_pairs(family, scenario)
    )
    return Built(tuple(sorted(pairs, key=lambda pair: draw(seed, "seed", pair.pair_id))), {})


def _scenario_pairs(family: str, scenario: Scenario) -> Iterator[Pair]:
    for place, side in enumerate(scenario.sides):
        for probe in side.probes:
            yield _pair(family, scenario.name, _wording(side.cached, probe), 1, side, probe)
            yield _pair(family, scenario.name, side.change, 0, scenario.sides[place - 1], probe)


def _pair(family: str, scenario: str, rule: Change | Wording, label: int, answered: Side, probe: Turn) -> Pair:
    texts = (answered.cached.query, answered.response, answered.cached.context, *probe)
    return Pair(
        pair_id=text_id("seed", *texts),
        pool="seed",
        source="seed",
        family=family,
        cluster=f"seed-{scenario}",
        rule=str(rule),
        label=label,
        q_cache=answered.cached.query,
        r_cache=answered.response,
        context_cache=answered.cached.context,
        q_probe=probe.query,
        context_probe=probe.context,
    )


def _wording(cached: Turn, probe: Turn) -> Wording:
    """Name how a request that the answer fits differs from the one that was answered."""
    if probe.query == cached.query:
        return Wording.IDENTICAL if probe.context == cached.context else Wording.OTHER_CONTEXT
    if probe.query.split() == cached.query.split():
        return Wording.OTHER_BLANKS
    if len(probe.query.split()) <= _SHORTENED * len(cached.query.split()):
        return Wording.SHORTER
    return Wording.REWORDED if probe.context == cached.context else Wording.REWORDED_ELSEWHERE
