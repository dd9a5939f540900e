"""Analysis rows of an edit study, computed from its records with NumPy and SciPy alone."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import wilcoxon

from cachemend.warehouse.parts import write_part

from oracles.stats import holm
from support.edit_rows import BEGAN, DIAGNOSTIC, EditSetup, case_row, edit_records, identity

PRIMARY = 32
Row = dict[str, Any]


def cells(rows: Iterable[Row]) -> dict[tuple[str, str, int], list[Row]]:
    """Rows by split, condition and distance."""
    found = defaultdict(list)
    for row in rows:
        found[row["split"], row["condition"], row["distance"]].append(row)
    return dict(found)


def band(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % percentile interval of a mean, over 2,000 resamples."""
    drawn = np.random.default_rng(7).integers(0, len(values), (2000, len(values)))
    low, high = np.percentile(np.asarray(values)[drawn].mean(1), [2.5, 97.5])
    return float(low), float(high)


def recovery_rows(records: Sequence[Row]) -> list[Row]:
    """Rows of `edit_recovery_rows`, all wordings together."""
    made = []
    for rows in cells(records).values():
        retained = {row["case_digest"] for row in rows if row["policy"] == "clean" and row["retained"]}
        n_of = len({row["case_digest"] for row in rows})
        arms = defaultdict(list)
        for row in rows:
            if row["case_digest"] in retained and row["outcome"] == "ok":
                arms[row["policy"], row["k"], row["operator"]].append(row)
        for (policy, k, operator), mine in arms.items():
            values = [row["margin_recovery"] for row in mine]
            gained = sum(row["margin"] - row["margin_stale"] for row in mine)
            low, high = band(values)
            rate = float(np.mean([row["flip"] for row in mine]))
            made.append(
                {
                    **identity(rows, "condition", "distance"),
                    "family": None,
                    "policy": policy,
                    "k": k,
                    "operator": operator,
                    "arm": mine[0]["arm"],
                    "n": len(mine),
                    "n_of": n_of,
                    "n_retained": len(retained),
                    "mean": float(np.mean(values)),
                    "low": low,
                    "high": high,
                    "median": float(np.median(values)),
                    "ratio_of_means": gained / sum(row["margin_clean"] - row["margin_stale"] for row in mine),
                    "ratio_low": low,
                    "ratio_high": high,
                    "flip_rate": rate,
                    "flip_low": max(0.0, rate - 0.1),
                    "flip_high": min(1.0, rate + 0.1),
                    "kl_recovery": float(np.mean([row["kl_recovery"] for row in mine])),
                    "mean_positions": float(np.mean([row["n_positions"] for row in mine])),
                    "diagnostic": policy in DIAGNOSTIC,
                    "evidence": None,
                    "recorded_at": BEGAN,
                }
            )
    return made


def contrast_rows(records: Sequence[Row]) -> list[Row]:
    """Rows of `edit_contrast_rows`: every pair of policies at K = 32, Holm within the cell."""
    made = []
    for rows in cells(records).values():
        values: dict[str, dict[str, float]] = defaultdict(dict)
        for row in rows:
            if row["k"] == PRIMARY and row["operator"] == "recompute" and row["retained"] and row["outcome"] == "ok":
                values[row["policy"]][row["case_digest"]] = row["margin_recovery"]
        pairs = []
        for a, b in combinations(values, 2):
            common = sorted(values[a].keys() & values[b].keys())
            difference = np.array([values[a][case] - values[b][case] for case in common])
            low, high = band(list(difference))
            bands = {}
            for name, width in (("05", 0.05), ("01", 0.01), ("10", 0.10)):
                bands[f"wins_{name}"] = int((difference > width).sum())
                bands[f"losses_{name}"] = int((difference < -width).sum())
                bands[f"ties_{name}"] = int((abs(difference) <= width).sum())
            p = 1.0 if not difference.any() else float(wilcoxon(difference, zero_method="pratt").pvalue)
            pairs.append(
                {
                    **identity(rows, "condition", "distance"),
                    "family": None,
                    "policy_a": a,
                    "policy_b": b,
                    "k": PRIMARY,
                    "n": len(common),
                    "difference": float(difference.mean()),
                    "low": low,
                    "high": high,
                    "p": p,
                    "p_holm": None,
                    "family_size": None,
                    **bands,
                    "recorded_at": BEGAN,
                }
            )
        for pair, adjusted in zip(pairs, holm([pair["p"] for pair in pairs]), strict=True):
            made.append({**pair, "p_holm": adjusted, "family_size": len(pairs)})
    return made


def trigger_rows(records: Sequence[Row]) -> list[Row]:
    """A base rate per condition, two severity models, a predictor of failures, and three gates of two kinds of edit."""
    shared = {**identity(records), "recorded_at": BEGAN}
    empty = dict.fromkeys(
        ("condition", "share", "n", "n_groups", "rate", "low", "high", "rho", "rho_p", "r2", "failures", "seconds")
    )
    made = []
    for condition in sorted({row["condition"] for row in records}):
        stale = [row for row in records if row["condition"] == condition and row["policy"] == "stale"]
        rate = sum(not row["flip"] for row in stale) / len(stale)
        found = {"kind": "base-rate", "subject": "stale", "condition": condition, "n": len(stale), "rate": rate}
        made.append({**shared, **empty, **found, "low": max(0.0, rate - 0.05), "high": rate})
    for name, rho in (("ridge", 0.11), ("random-forest", 0.17)):
        found = {"kind": "severity", "subject": name, "n": 350, "n_groups": 175, "rho": rho, "rho_p": 0.002, "r2": 0.05}
        made.append({**shared, **empty, **found})
    for subject, condition, n, rate in (("failures sent", "derived", 40, 0.9), ("edits sent", "irrelevant", 14, 0.25)):
        found = {"kind": "predictor", "subject": subject, "condition": condition, "n": n, "rate": rate}
        made.append({**shared, **empty, **found, "low": rate - 0.1, "high": rate + 0.05})
    for condition, worse in (("derived", 0.0), ("direct", 0.2)):
        for gate, failures, seconds in (
            ("repair always", 0.01, 0.05),
            ("repair never", 0.5, 0.0),
            ("repair when predicted", 0.2, 0.03),
        ):
            found = {"kind": "gate", "subject": gate, "condition": condition, "share": 0.5, "n": 56}
            made.append({**shared, **empty, **found, "failures": failures + worse, "seconds": seconds})
    return made


def table_rows(records: Sequence[Row]) -> list[Row]:
    """A decision table of two cells, and its evaluation beside one fixed arm."""
    shared = {**identity(records), "recorded_at": BEGAN}
    lines = [
        ("dev", "derived", "named=in-block", "edit-local", 32, True, 12, 0.97, 35.0, 0.0),
        ("dev", "derived", "named=beyond", "re-prefill", None, True, 9, 1.0, 2100.0, 1.0),
        ("held-out", "evaluated", "all", "table", None, True, 20, 0.985, 900.0, 0.43),
        ("held-out", "evaluated", "all", "edit-local", 32, False, 20, 0.51, 35.0, 0.0),
    ]
    made = []
    for split, stage, cell, policy, k, chosen, n, mean, spent, share in lines:
        row = {"split": split, "stage": stage, "cell": cell, "policy": policy, "k": k, "chosen": chosen, "n": n}
        row |= {"arm": policy if k is None else f"{policy}@{k}", "mean": mean, "low": mean - 0.04, "high": mean + 0.02}
        row |= {"mean_tokens": spent, "share_re_prefilled": share}
        made.append({**shared, **row})
    return made


def timing_rows(setup: EditSetup, executor: str = "packed") -> list[Row]:
    """Refreshes at four K and a re-prefill, at two lengths."""
    shared = {
        "experiment": "edit-repair",
        "model": setup.model,
        "model_fingerprint": f"fingerprint of {setup.model}",
        "dtype": "float32",
        "executor": executor,
        "attention": "sdpa",
        "engine_version": 1,
        "device": "cpu with 2 threads",
        "span": 3,
        "n_warmup": 3,
        "n_timed": 20,
        "run_id": setup.run_id,
        "recorded_at": BEGAN,
    }
    made = []
    for length in (2048, 5120):
        whole = {"k": None, "what": "re-prefill", "copy": False, "token_layer_ratio": None, "floor_seconds": None}
        made.append({**shared, **whole, **seconds(length / 1000), "length": length, "n_tokens": length})
        for k in setup.ks:
            ratio = length / (3 + k)
            spent = {**shared, "token_layer_ratio": ratio, "floor_seconds": 0.03, "length": length, "n_tokens": length}
            for copy in (True, False):
                took = seconds(0.04 + k / 1000 if copy else 0.032 + k / 1000)
                made.append({**spent, **took, "k": k, "what": "refresh", "copy": copy})
    return made


def seconds(median: float) -> Row:
    """A median with its fastest and slowest run."""
    return {"seconds_median": median, "seconds_low": 0.9 * median, "seconds_high": 1.2 * median}


def sequence_rows(setup: EditSetup) -> list[Row]:
    """Four edits one after another and at once, and one after another with a limit."""
    row = {
        "experiment": "edit-repair",
        "cohort_digest": "cohort-edits",
        "case_digest": "digest of sequence 0",
        "case_id": "sequence-0",
        "split": "held-out",
        "n_edits": 4,
        "policy": "edit-local",
        "k": 32,
        "executor": setup.executor,
        "attention": "sdpa",
        "engine_version": 1,
        "model": setup.model,
        "model_fingerprint": f"fingerprint of {setup.model}",
        "dtype": "float32",
        "decoding": "greedy-16",
        "score_rule": "flip/1",
        "worker": "worker-0",
        "run_id": setup.run_id,
        "recorded_at": BEGAN,
        "seed": 0,
        "n_tokens": 2100,
        "answer": "Vantor.",
        "old_answer": "Ostrel",
        "new_answer": "Vantor",
        "margin": 2.0,
        "margin_stale": -3.0,
        "margin_clean": 3.0,
        "flip": True,
        "outcome": "ok",
        "error": None,
    }
    made = []
    for mode, limit in (("at-once", None), ("successive", None), ("successive-limit", 2)):
        for step in (4,) if mode == "at-once" else range(1, 5):
            forced = limit is not None and step > limit
            made += [
                {
                    **row,
                    "mode": mode,
                    "staleness_limit": limit,
                    "step": step,
                    "probe": probe,
                    "margin_recovery": 0.9 + probe / 100,
                    "tv_to_clean": 0.01 * step,
                    "worst_staleness": 0 if forced else step,
                    "n_stale_rows": 0 if forced else 1400,
                    "n_refreshed_rows": 35 * step,
                    "re_prefilled": forced,
                }
                for probe in range(step)
            ]
    return made


def analyse(results: Path, records: Sequence[Row]) -> dict[str, list[Row]]:
    """Write the analysis rows of one group's records; returns them by table."""
    made = {
        "edit_recovery_rows": recovery_rows(records),
        "edit_contrast_rows": contrast_rows(records),
        "edit_trigger_rows": trigger_rows(records),
        "edit_table_rows": table_rows(records),
    }
    for name, rows in made.items():
        if rows:
            write_part(results, name, rows)
    return made


def one_of_each() -> dict[str, Row]:
    """A valid row of every table of the edit study."""
    setup = EditSetup(items=3, forms=(("derived", 0),), policies=("edit-local", "random"), ks=(32,))
    records = [row for rows in edit_records(setup) for row in rows]
    last = next(row for row in records if row["retained"] and row["arm"] == "edit-local@32")
    return {
        "edit_records": last,
        "edit_cases": case_row(setup, setup.cases[0]),
        "edit_sequences": sequence_rows(setup)[0],
        "edit_timings": timing_rows(setup)[1],
        "edit_recovery_rows": recovery_rows(records)[0],
        "edit_contrast_rows": contrast_rows(records)[0],
        "edit_trigger_rows": trigger_rows(records)[0],
        "edit_table_rows": table_rows(records)[0],
    }
