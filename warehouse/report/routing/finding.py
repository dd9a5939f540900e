"""The opening of a group of the routing study: what was measured and what came out, in sentences from the rows."""

from collections import Counter

from cachemend.warehouse.report.formats import day, number, percent, plural
from cachemend.warehouse.report.routing.analysis import Arm, Point
from cachemend.warehouse.report.routing.gains import GAIN, Gain, gain
from cachemend.warehouse.report.routing.names import (
    EXACT,
    RIVAL,
    arm_label,
    method_label,
    pool_label,
    setting_label,
    signal_label,
)
from cachemend.warehouse.report.routing.quality import warnings
from cachemend.warehouse.report.routing.rows import ROUTER, PoolIdentity, RoutingGroup

_TASK = (
    "A new request resembles one that was answered before; the router reuses the cached response, asks a verifier "
    "first, or regenerates."
)
_ON_LABELS = (
    "The verdicts of this group are the labels themselves: a diagnostic of the ceiling for any verifier, from which "
    "nothing follows about a verifier or the router."
)


def statement(identity: PoolIdentity, cohort: str | None, group: RoutingGroup) -> str:
    """Return what was measured, in plain words."""
    named = f" (cohort “{cohort}”)" if cohort else ""
    sentences = [_TASK, f"{_first_upper(pool_label(identity.pool))}{named}: {_counted(group)}."]
    sentences.append(f"Similarity is by {identity.encoder}; verdicts are by {judge(identity, group)}.")
    point = next(iter(group.points), None)
    if point is not None:
        sentences.append(
            f"Rates are over {plural(point.exposures, 'held-out exposure')}: the test subsets of "
            f"{plural(point.n_splits, 'split')}, in which no cluster is on two sides."
        )
    dates = [moment for _, moment in group.written]
    first, last = day(min(dates)), day(max(dates))
    when = f"recorded {first}" if first == last else f"recorded {first} to {last}"
    return " ".join([*sentences, f"Engine version {identity.engine_version}, {when}."])


def judge(identity: PoolIdentity, group: RoutingGroup) -> str:
    """Return the verifier as the user named it, its fingerprint where no record says."""
    names = sorted({row.verifier_model for row in group.rows})
    return ", ".join(names) or identity.verifier[:12]


def finding(identity: PoolIdentity, group: RoutingGroup) -> str:
    """Return the key result: what the router gains over exact match and over similarity + verifier, if anything.

    Both are compared at the same risk target and verifier budget, as far as they have one.
    """
    if identity.verifier == "label-oracle":
        return _ON_LABELS
    if group.stress:
        return _stress(group)
    point = headline(group)
    if point is None:
        return "The records of this group have not been analysed yet, so there is nothing to conclude."
    return " ".join(
        [*_gains(group), *_subject(group, point), *_similarity(group), *_probes(group), *_verifier(group, point)]
    )


def headline(group: RoutingGroup) -> Point | None:
    """Return the setting the finding is about: the most compared, else the router's first without a certificate."""
    certified = {row.arm for row in group.certified}
    own = {p.arm: p for p in group.points if p.method == ROUTER and p.arm not in certified}
    sizes = Counter(test.reference for test in group.tests)
    compared = [Arm(ROUTER, reference) for reference, _ in sizes.most_common()]
    return next((own[arm] for arm in compared if arm in own), next(iter(own.values()), None))


def _gains(group: RoutingGroup) -> list[str]:
    point = headline(group)
    assert point is not None, "the caller has looked"
    found, missing = _simpler(group, point.setting)
    subject = f"{method_label(ROUTER)} at {setting_label(point.setting)}"
    told = [f"{'a gain' if each.kind == GAIN else 'no gain'} over {name}" for name, each in found.items()]
    sentences = [f"{subject} shows {' and '.join(told)}."] if told else []
    if told and not any(each.kind == GAIN for each in found.values()):
        sentences = [f"There is no gain: {subject} shows none over {' nor over '.join(found)}."]
    sentences += [each.sentence for each in found.values()]
    if missing:
        sentences.append(f"{subject} was not compared with {' nor with '.join(missing)}.")
    for setting in sorted({test.reference for test in group.tests} - {point.setting}):
        sentences += [
            f"At {setting_label(setting)}, a{each.sentence[1:]}" for each in _simpler(group, setting)[0].values()
        ]
    return sentences


def _simpler(group: RoutingGroup, setting: str) -> tuple[dict[str, Gain], list[str]]:
    """Gains of a setting over what a simpler cache does under the same target and budget; what was not compared."""
    wanted = (
        (Arm(EXACT, "query"), "exact match"),
        (Arm(RIVAL, setting), "similarity + verifier at the same α and B"),
    )
    tests = {test.arm: test for test in group.tests if test.reference == setting}
    found = {name: gain(tests[arm], name) for arm, name in wanted if arm in tests}
    return found, [name for arm, name in wanted if arm not in tests]


def _subject(group: RoutingGroup, point: Point) -> list[str]:
    risk = next((risk for risk in group.risks if risk.arm == point.arm), None)
    bound = ""
    if risk is not None:
        bound = (
            f"; one-sided 95 % bound {_rate(risk.exact_upper, 2)} if exposures were independent, "
            f"{_rate(risk.distinct_upper, 2)} over {plural(risk.distinct_accepted, 'distinct pair')}"
        )
    sentences = [
        f"{method_label(ROUTER)} answers {_rate(point.vchr)} of requests validly from the cache, and "
        f"{_rate(point.fh, 2)} of its hits are invalid ({point.n_invalid:,} of {plural(point.accepted, 'hit')}{bound})."
    ]
    if point.n_abstained:
        sentences.append(
            f"In {point.n_abstained} of {plural(point.n_splits, 'split')} no policy was feasible and everything was "
            "regenerated."
        )
    over = [(r, r.splits_over_alpha) for r in group.risks if r.method == ROUTER and r.splits_over_alpha]
    plain = {p.arm for p in group.points} - {row.arm for row in group.certified}
    told = [f"at {setting_label(r.setting)} in {n} of {r.n_splits}" for r, n in over if r.arm in plain]
    if told:
        sentences.append(f"The held-out rate exceeds its own target {', '.join(told)} splits.")
    return sentences


def _similarity(group: RoutingGroup) -> list[str]:
    areas = {row.signal: row.auroc for row in group.signals if not row.source and row.auroc is not None}
    plain = areas.pop("similarity", None)
    if plain is None or not areas:
        return []
    best = max(areas, key=lambda name: areas[name])
    return [
        f"Plain similarity alone ranks invalid reuse with AUROC {number(plain, 3)}; the best of the router's signals "
        f"is {_first_lower(signal_label(best))}, with {number(areas[best], 3)}."
    ]


def _probes(group: RoutingGroup) -> list[str]:
    traces = [probe for probe in group.probes if probe.within_target is False]
    if not traces:
        return []
    told = (f"{probe.source} by the {probe.side} alone ({number(probe.auroc, 3)})" for probe in traces)
    return [
        f"A probe of one side tells the labels of {', '.join(told)} with an AUROC above 0.60: figures on these sources "
        "say less about routing than they seem to."
    ]


def _verifier(group: RoutingGroup, point: Point) -> list[str]:
    if group.rows and all(row.verdict is None for row in group.rows):
        return ["No verifier was asked: what would be verified is regenerated."]
    return warnings(group.quality, point.setting)


def _stress(group: RoutingGroup) -> str:
    n = max(row.n for row in group.stress)
    own = [row for row in group.stress if row.method == ROUTER]
    others = [row for row in group.stress if row.method != ROUTER and row.n_hits]
    told = [
        f"{arm_label(row.arm)} returned the cached response for {row.n_hits} (one-sided 95 % bound on the rate "
        f"{_rate(row.upper)})"
        for row in own
    ]
    if others:
        worst = max(others, key=lambda row: row.n_hits)
        told.append(f"the most of any comparator is {worst.n_hits}, by {arm_label(worst.arm)}")
    else:
        told.append("no comparator returned any")
    opening = f"Of {plural(n, 'adversarial input')}, each of which needs another answer than the cached one"
    return f"{opening}: {'; '.join(told)}."


def _counted(group: RoutingGroup) -> str:
    rows = group.rows
    if not rows:
        return "its pairs are not recorded here"
    good = sum(row.valid for row in rows)
    clusters, sources = ({getattr(row, name) for row in rows} for name in ("cluster", "source"))
    return (
        f"{plural(len(rows), 'pair')} of {plural(len(clusters), 'cluster')} and {plural(len(sources), 'source')}, "
        f"{good:,} of them valid and {len(rows) - good:,} invalid"
    )


def _rate(value: float | None, digits: int = 1) -> str:
    return percent(None if value is None else 100 * value, digits)


def _first_upper(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _first_lower(text: str) -> str:
    return f"{text[:1].lower()}{text[1:]}"
