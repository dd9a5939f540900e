"""How well signals rank invalid reuse, how reliable the risk map is, and how good the verifier (appendices H and I)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cachemend.calibration.errors import CalibrationError
from cachemend.calibration.ranking import ranking
from cachemend.calibration.reliability import equal_width_bins, reliability
from cachemend.calibration.signal_tables import conflict_table, uncertainty_halves
from cachemend.calibration.splits import Split
from cachemend.calibration.verdicts import Verdict
from cachemend.calibration.verifier_quality import verifier_quality
from cachemend.tasks.routing.pool import RoutedPool
from cachemend.tasks.routing.replaying import Series, split_scores
from cachemend.tasks.routing.stacked import Exposures

_REPLICATES = 1_000  # AUROC intervals of nine signals over five sources


def signal_rows(
    pool: RoutedPool, splits: Sequence[Split], exposures: Exposures, *, own_guards: bool
) -> list[dict[str, Any]]:
    """Columns of `signal_rows`: raw signals, and those that policies decide on, over the held-out exposures.

    The routed signals D and U of an exposure are those by the risk map of its split.

    Args:
        pool: the pool.
        splits, exposures: of it.
        own_guards: whether this project's further guards count as conflicts.
    """
    routed = [split_scores(pool, split, own_guards=own_guards).test_scores for split in splits]
    signals, rows_of = pool.signals, exposures.rows
    named = {
        "similarity": -pool.columns["similarity"][rows_of],
        "d_match": signals.d_match[rows_of],
        "u_match": signals.u_match[rows_of],
        "h": (signals.h_rule | signals.h_ctx)[rows_of],
        "h_rule": signals.h_rule[rows_of],
        "h_ctx": signals.h_ctx[rows_of],
        "h_own": signals.h_own[rows_of],
        "d": np.concatenate([scores.d for scores in routed]),
        "u": np.concatenate([scores.u for scores in routed]),
    }
    sources = pool.columns["source"].astype(str)[rows_of]
    rows = []
    for source in ("", *sorted(set(sources))):
        inside = np.ones(len(rows_of), dtype=bool) if not source else sources == source
        for name, values in named.items():
            rows.append({"signal": name, "source": source, **_ranked(values[inside], exposures, inside)})
    return rows


def _ranked(values: NDArray[Any], exposures: Exposures, inside: NDArray[np.bool_]) -> dict[str, Any]:
    valid = exposures.valid[inside]
    told: dict[str, Any] = {"n": int(inside.sum()), "n_invalid": int((~valid).sum())}
    try:
        found = ranking(values.astype(np.float64), valid, exposures.clusters[inside], replicates=_REPLICATES)
    except CalibrationError:  # one label only: there is nothing to rank
        return {**told, **dict.fromkeys(("auroc", "auroc_low", "auroc_high", "auprc"))}
    return {
        **told,
        "auroc": found.auroc.point,
        "auroc_low": found.auroc.low,
        "auroc_high": found.auroc.high,
        "auprc": found.auprc.point,
    }


def map_rows(pool: RoutedPool, splits: Sequence[Split], router: Series, *, own_guards: bool) -> list[dict[str, Any]]:
    """Columns of `routing_map_rows` over the held-out exposures of all splits.

    Args:
        pool: the pool.
        splits: the splits.
        router: a setting of the router, for the table of conflicts.
        own_guards: whether this project's further guards count as conflicts.
    """
    parts = [split_scores(pool, split, own_guards=own_guards) for split in splits]
    mismatch = np.concatenate([part.test.signals.d_match for part in parts])
    predicted = np.concatenate([part.risk_map.predict(part.test.signals.d_match).rate for part in parts])
    valid = np.concatenate([part.test.valid for part in parts])
    uncertainty = np.concatenate([part.test_scores.u for part in parts])
    conflict = np.concatenate([part.test_scores.h for part in parts])
    accepted = np.concatenate([served.accepted for served in router.served])
    found = reliability(predicted, valid, equal_width_bins(predicted))
    rows: list[dict[str, Any]] = [
        {"kind": "bin", "name": f"K bin {at}", "n": each.n, "predicted": each.predicted, "observed": each.observed}
        for at, each in enumerate(found.bins)
    ]
    rows.append({"kind": "summary", "name": "all", "n": len(valid), "ece": found.ece, "brier": found.brier})
    for at, halves in enumerate(uncertainty_halves(mismatch, uncertainty, valid)):
        for half, n, rate in (("low", halves.n_low, halves.invalid_low), ("high", halves.n_high, halves.invalid_high)):
            if n:
                rows.append({"kind": "stratum", "name": f"D stratum {at + 1}, U {half}", "n": n, "observed": rate})
    table = conflict_table(conflict, valid, accepted)
    for name, counts in (("exposures", table.exposures), ("returned", table.accepted)):
        for h, (invalid, right) in enumerate(counts.tolist()):
            if invalid + right:
                share = invalid / (invalid + right)
                rows.append({"kind": "conflict", "name": f"H = {h}, {name}", "n": invalid + right, "observed": share})
    empty = dict.fromkeys(("predicted", "observed", "ece", "brier"))
    return [{**empty, **row} for row in rows]


def quality_rows(
    pool: RoutedPool, verdicts: Sequence[Verdict | None], routers: Sequence[Series], exposures: Exposures
) -> list[dict[str, Any]]:
    """Columns of `verifier_quality_rows`: all verdicts, and those in the verification region of each setting.

    Args:
        pool: the pool.
        verdicts: one per pair; None where it was not asked.
        routers: settings of the router.
        exposures: the exposures of all splits.
    """
    asked = np.array([verdict is not None for verdict in verdicts])
    rows = [_quality("all pairs asked about", np.flatnonzero(asked), verdicts, pool)]
    for series in routers:
        called = np.concatenate([served.verified for served in series.served])
        rows.append(_quality(f"verified at {series.setting}", exposures.rows[called], verdicts, pool))
    return [row for row in rows if row is not None]


def _quality(
    region: str, places: NDArray[np.intp], verdicts: Sequence[Verdict | None], pool: RoutedPool
) -> dict[str, Any] | None:
    given = [(verdict, at) for at in places.tolist() if (verdict := verdicts[at]) is not None]
    if not given:
        return None
    found = verifier_quality([verdict for verdict, _ in given], pool.valid[[at for _, at in given]])
    told = found._asdict()
    del told["youden"]
    return {"region": region, **told}
