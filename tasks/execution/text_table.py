"""Rows of the benchmark as plain text, for a terminal without anything else."""

from collections.abc import Mapping, Sequence
from typing import Any


def tables(found: Mapping[str, Any]) -> str:
    """The result of `gpu_check.run` as text: one table per precision and study, then what is wrong."""
    lines = [f"{found['device']}, {found['shape']} ({found['weights']} weights), {found['dtype']}, {found['torch']}"]
    if found["note"]:
        lines.append(found["note"])
    lines += ["", "share of the FP64 tolerance used, by backend and precision (wrong above 1)"]
    lines += _correctness(found["correctness"])
    for study, unit, scale in (("refresh", "ms", 1e3), ("attention", "us", 1e6)):
        lines += ["", f"{study}, {unit}: median [fastest, slowest] over its floor"]
        lines += _times(found[study]["lines"], scale)
        lines += [f"  {stage}" for stage in found[study]["timed_stages"]]
    lines += ["", f"wrong: {len(found['wrong'])}; {found['seconds']:.0f} s in all"]
    lines += [f"  {row['attention']}: {row['outcome']}: {row['error']}" for row in found["wrong"]]
    return "\n".join(lines)


def _correctness(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = []
    for attention, dtype in dict.fromkeys((row["attention"], row["dtype"]) for row in rows):
        mine = [row for row in rows if (row["attention"], row["dtype"]) == (attention, dtype)]
        used = [row["tolerance_used"] for row in mine if row["tolerance_used"] is not None]
        worst = f"{max(used):.3f}" if used else mine[0]["outcome"]
        lines.append(f"  {attention:<14} {dtype:<9} {worst:>8}  {_ended(mine)}")
    return lines


def _ended(rows: Sequence[Mapping[str, Any]]) -> str:
    return next((str(row["error"]) for row in rows if row["error"] is not None), f"{len(rows)} cases")


def _times(rows: Sequence[Mapping[str, Any]], scale: float) -> list[str]:
    lines = []
    for row in rows:
        where = f"N={row['length']:<5} R={row['n_intervals']:<3} {row['executor']:<9} {row['attention']:<14}"
        if row["seconds_median"] is None:
            lines.append(f"  {where} {row['error']}")
            continue
        low, middle, high = (scale * row[f"seconds_{name}"] for name in ("low", "median", "high"))
        bound = [row[f"floor_{of}_seconds"] for of in ("flops", "bytes") if row[f"floor_{of}_seconds"] is not None]
        above = f"{row['seconds_median'] / max(bound):6.2f} x" if bound else ""
        lines.append(f"  {where} {middle:9.3f} [{low:.3f}, {high:.3f}] {above}")
    return lines
