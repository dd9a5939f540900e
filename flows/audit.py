"""`cachemend audit`: a label-blind sheet of a pool for people to judge, and the agreement once they have."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

from cachemend.calibration.bounds import CONFIDENCE, exact_upper
from cachemend.datasets.audit_sheet import score_audit, write_audit_sheet
from cachemend.datasets.pair import Pair
from cachemend.flows.routing_pools import build_pools
from cachemend.repair_core.errors import InputError, nearest

POOLS = ("seed", "reconstruction", "hard")


def write_audit(pool: str, data: Path, out: Path | None, n: int) -> None:
    """Write a sheet of `n` pairs and print how to go on.

    Args:
        pool: one of `POOLS`.
        data: folder of official data files.
        out: the sheet; None for one in this folder, named after the pool.

    Raises:
        InputError: an unknown pool, one whose data is missing, `n` out of range, or a sheet that is there already or
            cannot be written.
    """
    path = Path(f"audit-{pool}.csv") if out is None else out.expanduser()
    if path.exists():
        raise InputError(f"{path} is there already and may be filled in; score it with --score, or give another --out")
    pairs = _pairs(pool, data)
    write_audit_sheet(pairs, path, n=n)
    print(
        f"wrote {path}: {n} of {len(pairs)} pairs without their labels; write 1 in the column verdict where the cached "
        f"response may be returned and 0 where it may not, then run cachemend audit --pool {pool} --score {path}"
    )


def print_agreement(pool: str, data: Path, sheet: Path) -> None:
    """Compare a filled sheet with the pool's labels.

    Raises:
        InputError: an unknown pool, one whose data is missing, or a sheet that is none of this pool or has rows that
            are not filled in (named).
    """
    found = score_audit(sheet, _pairs(pool, data))
    lower = 1 - exact_upper(found.n - found.agreed, found.n)
    print(
        f"{found.agreed} of {found.n} verdicts agree with the labels: {100 * found.rate:.1f} %, "
        f"with confidence {100 * CONFIDENCE:g} % at least {100 * lower:.1f} % of the pool"
    )
    if found.disagreed:
        print(f"they disagree on {', '.join(found.disagreed)}")


def _pairs(pool: str, data: Path) -> list[Pair]:
    if pool not in POOLS:
        raise InputError(f"pool {pool!r} is unknown; {nearest(pool, POOLS)}")
    # The pool as a run builds it. The cohort file that a run keeps beside its results is of no use here.
    with TemporaryDirectory() as folder:
        built = build_pools((pool,), data, Path(folder), None)
    for note in built.notes:
        print(note)
    return [cast(Pair, pair) for pair in built.pools[0].cohort.cases]
