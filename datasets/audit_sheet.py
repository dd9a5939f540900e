"""Sheets on which people judge pairs without seeing their labels: the audit of a pool, and the labelling of a log.

The question of every row: may `r_cache`, the answer to `q_cache` in `context_cache`, be returned for `q_probe` in
`context_probe`? Write 1 for yes and 0 for no in the column `verdict`.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from cachemend.calibration.candidate import Candidate
from cachemend.datasets.pair import Pair
from cachemend.datasets.pair_build import SEED
from cachemend.datasets.pair_log import LogRow, labelled_pairs
from cachemend.datasets.pair_log_table import read_table, require_columns, text_column
from cachemend.datasets.seeded import draw
from cachemend.datasets.sheet_file import cell, write_sheet
from cachemend.repair_core.errors import InputError

_SHOWN = ("q_cache", "context_cache", "r_cache", "q_probe", "context_probe")
_NAMED, _LONGEST = 5, 20

T = TypeVar("T")


class Agreement(NamedTuple):
    """What an audit found.

    Attributes:
        n: rows judged.
        agreed: rows whose verdict is the pair's label.
        disagreed: ids of the other pairs, in the sheet's order.
    """

    n: int
    agreed: int
    disagreed: tuple[str, ...]

    @property
    def rate(self) -> float:
        """Share of rows on which verdict and label agree."""
        return self.agreed / self.n


def write_audit_sheet(pairs: Sequence[Pair], path: Path, *, n: int = 120, seed: int = SEED) -> Path:
    """Write `n` of the pairs, stratified by source, without anything that tells their labels (paper appendix A).

    Each source has its share of the rows, rounded by largest remainders. Which pairs and in which order follows from
    `seed`, ids and texts alone.

    Raises:
        InputError: `n` below 1 or above the number of pairs, a pair given twice, or a file that cannot be written.
    """
    rows = _by_row(((pair.pair_id, pair.candidate), pair) for pair in pairs)
    if not 1 <= n <= len(rows):
        raise InputError(f"audit of {n} pairs: give a number from 1 to {len(rows)}, the number of pairs")
    drawn = sorted(rows, key=lambda row: draw(seed, "audit", row))
    left = _shares(Counter(pair.source for pair in pairs), n)
    chosen = []
    for row in drawn:
        if left[rows[row].source]:
            left[rows[row].source] -= 1
            chosen.append(row)
    return write_sheet(
        path,
        ("row", *_SHOWN, "verdict"),
        ((row, *_cells(rows[row].candidate), "") for row in chosen),
    )


def score_audit(sheet_path: Path, pairs: Sequence[Pair]) -> Agreement:
    """Compare a filled audit sheet with the labels of the pairs it was drawn from.

    Raises:
        InputError: a file that is no such sheet, rows that are unknown, repeated or not filled in (named), or a
            verdict other than 0 and 1.
    """
    rows = _by_row(((pair.pair_id, pair.candidate), pair) for pair in pairs)
    verdicts = _verdicts(sheet_path, rows)
    _refuse(sheet_path, [row for row, verdict in verdicts.items() if verdict is None], "have no verdict")
    disagreed = tuple(rows[row].pair_id for row, verdict in verdicts.items() if verdict != rows[row].label)
    return Agreement(len(verdicts), len(verdicts) - len(disagreed), disagreed)


def write_label_sheet(candidates: Sequence[LogRow], scores: ArrayLike, path: Path) -> Path:
    """Write the rows of an unlabelled log for labelling, highest score first.

    The score (float [n], such as the similarity of the requests) is shown: rows below the lowest similarity that a
    policy admits need no label. Label every row above it, not a selection of your own.

    Raises:
        InputError: no rows, a row given twice, or a file that cannot be written.
        ValueError: scores that are not one finite number for each row.
    """
    values = np.asarray(scores, dtype=float)
    if values.shape != (len(candidates),) or not np.isfinite(values).all():
        raise ValueError(f"scores of shape {values.shape}: give one finite number for each of {len(candidates)} rows")
    if not candidates:
        raise InputError("the log has no rows without a label")
    rows = _by_row(((row.pair_id, row.candidate), (row, value)) for row, value in zip(candidates, values, strict=True))
    ordered = sorted(rows, key=lambda row: (-rows[row][1], row))
    return write_sheet(
        path,
        ("row", "score", *_SHOWN, "verdict"),
        ((row, f"{rows[row][1]:.4f}", *_cells(rows[row][0].candidate), "") for row in ordered),
    )


def read_label_sheet(sheet_path: Path, candidates: Sequence[LogRow]) -> tuple[Pair, ...]:
    """Return the rows that were labelled, as pairs, in the order of `candidates`; the others are left out.

    Texts are those of `candidates`: what a spreadsheet program made of them in the sheet does not matter.

    Raises:
        InputError: a file that is no such sheet, rows that are unknown or repeated (named), a verdict other than 0
            and 1, no verdict at all, or verdicts all the same.
    """
    rows = _by_row(((row.pair_id, row.candidate), row) for row in candidates)
    verdicts = _verdicts(sheet_path, rows)
    pairs = labelled_pairs(sheet_path, list(rows.values()), [verdicts.get(row) for row in rows])
    if not pairs:
        raise InputError(f"{sheet_path}: no row has a verdict; write 1 or 0 in the column 'verdict'")
    return pairs


def row_id(pair_id: str, candidate: Candidate) -> str:
    """Return the name of a row: a digest that tells nothing, and that no spreadsheet program takes for a number."""
    texts = (pair_id, *(getattr(candidate, name) for name in _SHOWN))
    return "p" + hashlib.sha256("\x1f".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:15]


def _by_row(items: Iterable[tuple[tuple[str, Candidate], T]]) -> dict[str, T]:
    rows: dict[str, T] = {}
    for (pair_id, candidate), item in items:
        if rows.setdefault(row_id(pair_id, candidate), item) is not item:
            raise InputError(f"pair {pair_id!r} is there twice")
    return rows


def _cells(candidate: Candidate) -> tuple[str, ...]:
    return tuple(cell(getattr(candidate, name)) for name in _SHOWN)


def _shares(counts: Counter[str], n: int) -> dict[str, int]:
    total = counts.total()
    shares = {source: n * count // total for source, count in counts.items()}
    by_remainder = sorted(counts, key=lambda source: (-(n * counts[source] % total), source))
    for source in by_remainder[: n - sum(shares.values())]:
        shares[source] += 1
    return shares


def _verdicts(path: Path, known: Iterable[str]) -> dict[str, int | None]:
    table = read_table(path, ("row", *_SHOWN, "verdict"))
    require_columns(path, table, ("row", "verdict"))
    names = text_column(path, table, "row")
    _refuse(path, sorted({*names} - {*known}), "are not of these pairs")
    _refuse(path, [name for name, count in Counter(names).items() if count > 1], "are there twice")
    verdicts = [text.strip() for text in text_column(path, table, "verdict")]
    _refuse(
        path,
        [name for name, verdict in zip(names, verdicts, strict=True) if verdict not in ("", "0", "1")],
        "have a verdict other than 0 and 1",
    )
    return {name: int(verdict) if verdict else None for name, verdict in zip(names, verdicts, strict=True)}


def _refuse(path: Path, rows: Sequence[str], why: str) -> None:
    if rows:
        more = f" and {len(rows) - _NAMED} more" if len(rows) > _NAMED else ""
        named = ", ".join(row[:_LONGEST] for row in rows[:_NAMED])
        raise InputError(f"{path}: {len(rows)} rows {why}: {named}{more}")
