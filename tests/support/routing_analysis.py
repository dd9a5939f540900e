"""Analysis rows of a routing study: counts recounted from its exposures, the rest by rule."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

from scipy.stats import beta, norm

from cachemend.warehouse.parts import write_part

from support.routing_rows import CERTIFIED, FAMILIES, SAFECACHE, SOURCES, RouteSetup, exposure_rows, write_records

Row = dict[str, Any]
REFERENCE = SAFECACHE[-1]
ABLATIONS = {"full": (0.0, 0.0), "explicit contradiction check": (-0.08, 0.006), "matching uncertainty": (-0.02, 0.003)}
AUROCS = {"similarity": 0.881, "d_match": 0.843, "u_match": 0.8127, "h": 0.7445, "h_rule": 0.7, "h_own": 0.55}


def exact_upper(invalid: int, hits: int) -> float:
    """Clopper-Pearson, one-sided 95 %."""
    return 1.0 if invalid >= hits else float(beta.ppf(0.95, invalid + 1, hits - invalid))


def wilson_upper(invalid: int, hits: int) -> float:
    """Wilson, one-sided 95 %."""
    if not hits:
        return 1.0
    z, p = norm.ppf(0.95), invalid / hits
    centre, spread = p + z * z / (2 * hits), z * (p * (1 - p) / hits + z * z / (4 * hits * hits)) ** 0.5
    return float((centre + spread) / (1 + z * z / hits))


def counts(setup: RouteSetup, rows: Iterable[Row]) -> Row:
    """The counts that several tables share."""
    rows = list(rows)
    hits = [row for row in rows if row["accepted"]]
    return {
        "n_splits": setup.splits,
        "exposures": len(rows),
        "accepted": len(hits),
        "n_valid": sum(row["valid"] for row in hits),
        "n_invalid": sum(not row["valid"] for row in hits),
        "n_verified": sum(row["action"] == "verify" for row in rows),
    }


def rates(setup: RouteSetup, rows: Iterable[Row]) -> tuple[float, float, int]:
    """Mean VCHR and FH over the splits, and splits without hits."""
    by_split = defaultdict(list)
    for row in rows:
        by_split[row["split"]].append(row)
    found = [counts(setup, mine) for mine in by_split.values()]
    fh = [each["n_invalid"] / each["accepted"] if each["accepted"] else 0.0 for each in found]
    vchr = [each["n_valid"] / each["exposures"] for each in found]
    return fmean(vchr), fmean(fh), sum(not each["accepted"] for each in found)


def analyse(results: Path, setup: RouteSetup) -> dict[str, list[Row]]:
    """Write the analysis of a setup and return its rows by table; a diagnostic one has points only."""
    own = (*setup.methods, ("safecache", CERTIFIED))
    exposures = {each: exposure_rows(setup, each) for each in own}
    base = {**setup.group}
    made: dict[str, list[Row]] = defaultdict(list)
    for (method, setting), rows in exposures.items():
        named = {**base, "method": method, "setting": setting}
        made["routing_point_rows"].append(named | point(setup, rows, method, setting))
        made["routing_risk_rows"].append(named | risk(setup, rows, setting))
        made["routing_family_rows"] += [named | part for part in families(setup, rows)]
        for reference in () if method in ("safecache", "no-cache") else SAFECACHE:
            simpler = method == "exact-match" or (method == "similarity-verifier" and setting == reference)
            if reference == REFERENCE or simpler:
                found = comparison(setup, exposures["safecache", reference], rows)
                made["routing_test_rows"].append(named | found | {"reference": reference})
    sizes = Counter(row["reference"] for row in made["routing_test_rows"])
    for row in made["routing_test_rows"]:
        size = sizes[row["reference"]]
        row |= {"family_size": size, "p_holm": min(1.0, row["p_joint"] * size)}
    for name, build in _TABLES.items():
        made[name] = [{**base, **row} for row in build(setup, made)]
    made["routing_probe_rows"] = probe_rows(setup)
    if setup.diagnostic:
        made = {"routing_point_rows": made["routing_point_rows"]}
    else:
        made["route_exposures"] = [row for rows in exposures.values() for row in rows]
    for name, rows in made.items():
        write_part(results, name, rows)
    return dict(made)


def point(setup: RouteSetup, rows: list[Row], method: str, setting: str) -> Row:
    found = counts(setup, rows)
    vchr, fh, without = rates(setup, rows)
    routed = method in ("safecache", "similarity-verifier")
    return {
        "alpha": float(setting.partition("alpha=")[2].split()[0]) if routed else None,
        "verifier_budget": float(setting.partition("B=")[2]) if routed else None,
        **found,
        "vchr": vchr,
        "fh": fh,
        "vchr_low": max(0.0, vchr - 0.05),
        "vchr_high": min(1.0, vchr + 0.05),
        "fh_low": max(0.0, fh - 0.04),
        "fh_high": min(1.0, fh + 0.04),
        "verifier_rate": found["n_verified"] / found["exposures"],
        "demand_rate": found["n_verified"] / found["exposures"] + 0.01 if method == "safecache" else None,
        "relative_cost": 1 - found["accepted"] / found["exposures"] + 0.02,
        "n_without_hits": without,
        "n_abstained": 1 if setting == CERTIFIED else 0,
        **dict.fromkeys(("observations_mean", "observations_max", "observations_ready")),
    }


def risk(setup: RouteSetup, rows: list[Row], setting: str) -> Row:
    found = counts(setup, rows)
    invalid, hits = found["n_invalid"], found["accepted"]
    returned = {row["case_digest"] for row in rows if row["accepted"]}
    wrong = {row["case_digest"] for row in rows if row["accepted"] and not row["valid"]}
    return {
        **found,
        "rate": invalid / hits if hits else None,
        "wilson_upper": wilson_upper(invalid, hits),
        "exact_upper": exact_upper(invalid, hits),
        "distinct_accepted": len(returned),
        "distinct_invalid": len(wrong),
        "distinct_upper": exact_upper(len(wrong), len(returned)),
        "fh_at_10": None,
        "fh_at_25": None,
        "splits_over_alpha": 2 if setting == SAFECACHE[0] else 0,
    }


def comparison(setup: RouteSetup, ours: list[Row], theirs: list[Row]) -> Row:
    a, b = rates(setup, ours), rates(setup, theirs)
    d_vchr, d_fh = a[0] - b[0], a[1] - b[1]
    return {
        "claim": "sup" if d_vchr > 0 else "ni+sup",
        "d_vchr": d_vchr,
        "d_fh": d_fh,
        "p_vchr": 0.003,
        "p_fh": 0.02,
        "p_joint": 0.02,
        "d_vchr_low": d_vchr - 0.03,
        "d_vchr_high": d_vchr + 0.03,
        "d_fh_low": d_fh - 0.02,
        "d_fh_high": d_fh + 0.02,
        "p_swap_vchr": 0.004,
        "p_swap_fh": 0.03,
    }


def families(setup: RouteSetup, rows: list[Row]) -> list[Row]:
    pairs = {f"digest of {pair.case_id}": pair for pair in setup.measured}
    made = []
    for column, names in (("family", FAMILIES), ("source", SOURCES)):
        for name in names:
            mine = counts(setup, (row for row in rows if getattr(pairs[row["case_digest"]], column) == name))
            if mine["exposures"]:
                hits, invalid = mine["accepted"], mine["n_invalid"]
                told = {"vchr": mine["n_valid"] / mine["exposures"], "fh": invalid / hits if hits else None}
                made.append({"source": "", "family": "", column: name, **mine, **told})
                made[-1]["fh_upper"] = exact_upper(invalid, hits)
    return made


def _ablations(setup: RouteSetup, made: dict[str, list[Row]]) -> list[Row]:
    full = next(row for row in made["routing_point_rows"] if row["setting"] == SAFECACHE[1])
    shared = {name: full[name] for name in ("n_splits", "exposures", "accepted", "n_valid", "n_invalid", "n_verified")}
    return [
        {
            "ablation": name,
            "setting": SAFECACHE[1],
            **shared,
            "vchr": full["vchr"] + d_vchr,
            "fh": full["fh"] + d_fh,
            "d_vchr": d_vchr,
            "d_fh": d_fh,
        }
        for name, (d_vchr, d_fh) in ABLATIONS.items()
    ]


def _orders(setup: RouteSetup, made: dict[str, list[Row]]) -> list[Row]:
    full = next(row for row in made["routing_point_rows"] if row["setting"] == SAFECACHE[0])
    names = ("n_splits", "exposures", "accepted", "n_valid", "n_invalid", "n_verified", "vchr", "fh", "verifier_rate")
    shared = {name: full[name] for name in names}
    orders = ("canonical", "reverse", "permutation 1")
    return [
        {
            "setting": SAFECACHE[0],
            "request_order": order,
            **shared,
            "vchr": shared["vchr"] + at / 1000,
            "over_budget": 0,
        }
        for at, order in enumerate(orders)
    ]


def _frozen(setup: RouteSetup, made: dict[str, list[Row]]) -> list[Row]:
    full = next(row for row in made["routing_point_rows"] if row["setting"] == SAFECACHE[0])
    names = ("n_splits", "exposures", "accepted", "n_valid", "n_invalid", "n_verified", "vchr", "fh")
    shared = {name: full[name] for name in names}
    exchanged = {"as selected": 0.0, "verified candidates reused": 0.05, "verified candidates regenerated": -0.13}
    return [
        {"exchanged": name, "setting": SAFECACHE[0], **shared, "d_vchr": change, "d_fh": change / 10}
        for name, change in exchanged.items()
    ]


def _quality(setup: RouteSetup, _: dict[str, list[Row]]) -> list[Row]:
    pairs = setup.measured
    ta = sum(pair.valid and pair.verdict == "VALID" for pair in pairs)
    tr = sum(not pair.valid and pair.verdict != "VALID" for pair in pairs)
    good = sum(pair.valid for pair in pairs)
    told = {"ta": ta, "tr": tr, "fa": len(pairs) - good - tr, "fr": good - ta, "n": len(pairs)}
    last = {"p_chance": 1e-9, "flag": None, "n_malformed": 1, "n_failed": 0}
    regions = ("all pairs asked about", f"verified at {SAFECACHE[0]}")
    return [{"region": region, **told, "agreement": (ta + tr) / len(pairs), **last} for region in regions]


def _signals(setup: RouteSetup, _: dict[str, list[Row]]) -> list[Row]:
    rows = []
    for source in ("", *SOURCES):
        inside = [pair for pair in setup.measured if source in ("", pair.source)]
        told = {"source": source, "n": len(inside), "n_invalid": sum(not pair.valid for pair in inside)}
        for name, auroc in AUROCS.items():
            band = {"auroc": auroc, "auroc_low": auroc - 0.03, "auroc_high": auroc + 0.03, "auprc": auroc - 0.1}
            rows.append({"signal": name, **told, **band})
    return rows


def _map(setup: RouteSetup, _: dict[str, list[Row]]) -> list[Row]:
    empty = dict.fromkeys(("predicted", "observed", "ece", "brier"))
    bins = [("K bin 0", 40, 0.05, 0.1), ("K bin 1", 30, 0.4, 0.35), ("K bin 2", 20, 0.9, 0.8)]
    rows = [{"kind": "bin", "name": n, "n": k + setup.pairs, "predicted": p, "observed": o} for n, k, p, o in bins]
    rows.append({"kind": "summary", "name": "all", "n": 90 + 3 * setup.pairs, "ece": 0.0611, "brier": 0.1422})
    for stratum, low, high in ((1, 0.1, 0.25), (2, 0.6, 0.5)):
        rows.append({"kind": "stratum", "name": f"D stratum {stratum}, U low", "n": 23, "observed": low})
        rows.append({"kind": "stratum", "name": f"D stratum {stratum}, U high", "n": 22, "observed": high})
    for h, shares in ((0, ((50, 0.2), (31, 0.05))), (1, ((40, 0.75), (9, 0.11)))):
        for name, (n, share) in zip(("exposures", "returned"), shares, strict=True):
            rows.append({"kind": "conflict", "name": f"H = {h}, {name}", "n": n, "observed": share})
    return [{**empty, **row} for row in rows]


def _certified(setup: RouteSetup, made: dict[str, list[Row]]) -> list[Row]:
    own = next(row for row in made["routing_point_rows"] if row["setting"] == CERTIFIED)
    plain = next(row for row in made["routing_point_rows"] if row["setting"] == REFERENCE)
    return [
        {
            "method": "safecache",
            "setting": CERTIFIED,
            "procedure": "learn-then-test",
            "alpha": 0.1,
            "delta": 0.05,
            "n_splits": setup.splits,
            "n_abstained": 1,
            "mean_clusters": 12.5,
            "certifiable": 0.1,
            "vchr": own["vchr"],
            "fh": own["fh"],
            "d_vchr": own["vchr"] - plain["vchr"],
            "n_violations": 1,
        }
    ]


def probe_rows(setup: RouteSetup) -> list[Row]:
    """Rows of `routing_probe_rows`: the cached responses of one source tell the label, another has few clusters."""
    shared = {name: setup.identity[name] for name in ("experiment", "cohort_digest", "pool")} | setup.written
    areas = {"sgd": 0.48, "tau-bench": None, "xstest": 0.71}
    return [
        {
            **shared,
            "source": source,
            "side": side,
            "n": sum(pair.source == source for pair in setup.measured),
            "auroc": area,
            "within_target": None if area is None else area <= 0.6,
        }
        for source in SOURCES
        for side, area in (("request", None if areas[source] is None else 0.5), ("response", areas[source]))
    ]


def stress_rows(setup: RouteSetup) -> list[Row]:
    """Rows of `routing_stress_rows`: the router returns nothing, the looser a threshold the more it returns."""
    rows = []
    for method, setting in setup.methods:
        hits = setup.pairs if method == "gptcache" else 0
        told = {
            "calibrated_on": "seed",
            "n": setup.pairs,
            "n_hits": hits,
            "n_verified": 3,
            "hit_rate": hits / setup.pairs,
        }
        rows.append(
            {**setup.group, "method": method, "setting": setting, **told, "upper": exact_upper(hits, setup.pairs)}
        )
    return rows


def one_of_each() -> dict[str, Row]:
    """A valid row of every table of response reuse."""
    setup = RouteSetup(pairs=12, splits=2)
    with TemporaryDirectory() as folder:
        rows = write_study(Path(folder), setup)
    rows |= {
        "routing_stress_rows": stress_rows(setup),
        "route_exposures": exposure_rows(setup, setup.methods[0]),
    }
    return {name: mine[0] for name, mine in rows.items() if name != "ceiling"}


def write_stress(results: Path, setup: RouteSetup) -> list[Row]:
    """Write the records of stress inputs and their analysis."""
    write_records(results, setup)
    rows = stress_rows(setup)
    write_part(results, "routing_stress_rows", rows)
    return rows


_TABLES: dict[str, Callable[[RouteSetup, dict[str, list[Row]]], list[Row]]] = {
    "routing_ablation_rows": _ablations,
    "routing_order_rows": _orders,
    "routing_frozen_rows": _frozen,
    "routing_certified_rows": _certified,
    "verifier_quality_rows": _quality,
    "signal_rows": _signals,
    "routing_map_rows": _map,
}


def write_study(results: Path, setup: RouteSetup) -> dict[str, list[Row]]:
    """Write a run, its analysis and the ceiling by the label oracle; returns all rows by table."""
    records = write_records(results, setup)
    made = analyse(results, setup)
    ceiling = analyse(results, replace(setup, diagnostic=True))
    return {"route_records": records, **made, "ceiling": ceiling["routing_point_rows"]}
