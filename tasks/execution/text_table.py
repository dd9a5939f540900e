"""Rows of the benchmark as plain text, for a terminal without anything else."""

from collections.abc import Mapping, Sequence
from typing import Any

FLOORS = {"refresh": " without the copy, and with it", "attention": ""}


def tables(found: Mapping[str, Any]) -> str:
    """The result of `gpu_check.run` as text: correctness, times, targets, then what is wrong."""
    lines = [f"{found['device']}, {found['shape']} ({found['weights']} weights), {found['dtype']}, {found['torch']}"]
    if found["note"]:
        lines.append(found["note"])
    lines += ["", "share of the FP64 tolerance used, by backend and precision (wrong above 1)"]
    lines += _correctness(found["correctness"])
    lines += ["", "captured refreshes in turn: largest relative L2 to interval-wise"]
    lines += _replays(found["replays"])
    for study, unit, scale in (("refresh", "ms", 1e3), ("attention", "us", 1e6)):
        lines += ["", f"{study}, {unit}: median [fastest, slowest] over its floor{FLOORS[study]}"]
        lines += _times(found[study]["lines"], scale)
        lines += [f"  {stage}" for stage in found[study]["timed_stages"]]
    if found["targets"]:
        lines += [
            "",
            "targets; one that is missed does not fail this check",
            *(f"  {t['line']}" for t in found["targets"]),
        ]
    lines += ["", f"wrong: {len(found['wrong'])}; {found['seconds']:.0f} s in all"]
    lines += [f"  {_name(row)}: {row['outcome']}: {row['error']}" for row in found["wrong"]]
    return "\n".join(lines)


def _correctness(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = []
    for attention, dtype in dict.fromkeys((row["attention"], row["dtype"]) for row in rows):
        mine = [row for row in rows if (row["attention"], row["dtype"]) == (attention, dtype)]
        used = [row["tolerance_used"] for row in mine if row["tolerance_used"] is not None]
        worst = f"{max(used):.3f}" if used else mine[0]["outcome"]
        lines.append(f"  {attention:<14} {dtype:<9} {worst:>8}  {_ended(mine)}")
    return lines


def _replays(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = []
    for name in dict.fromkeys(map(_name, rows)):
        mine = [row for row in rows if _name(row) == name]
        off = [row["relative_l2"] for row in mine if row["relative_l2"] is not None]
        lines.append(f"  {name:<32} {max(off) if off else float('nan'):.2e}  {_ended(mine)}")
    return lines


def _name(row: Mapping[str, Any]) -> str:
    """A line of a study; a check of a backend has no executor."""
    return " ".join(row[key] for key in ("executor", "attention") if key in row)


def _ended(rows: Sequence[Mapping[str, Any]]) -> str:
    return next((str(row["error"]) for row in rows if row["error"] is not None), f"{len(rows)} cases")


def _times(rows: Sequence[Mapping[str, Any]], scale: float) -> list[str]:
    lines = []
    for row in rows:
        where = f"N={row['length']:<5} R={row['n_intervals']:<3} {row['executor']:<18} {row['attention']:<14}"
        if row["seconds_median"] is None:
            lines.append(f"  {where} {row['error']}")
            continue
        low, middle, high = (scale * row[f"seconds_{name}"] for name in ("low", "median", "high"))
        lines.append(f"  {where} {middle:9.3f} [{low:.3f}, {high:.3f}] {_above(row)}")
    return lines


def _above(row: Mapping[str, Any]) -> str:
    """How many times its floor a line takes, without the copy and, where it makes one, with it."""
    flops, moved, copied = (row.get(f"floor_{of}_seconds") for of in ("flops", "bytes", "copy"))
    if flops is None or moved is None:
        return ""
    floors = [max(flops, moved)] + ([max(flops, moved + copied)] if copied else [])
    return "".join(f"{row['seconds_median'] / floor:7.2f} x" for floor in floors)
