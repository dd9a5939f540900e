"""How good the verifier is, and in words what a constant or chance-level one means."""

from collections.abc import Sequence
from typing import NamedTuple

from cachemend.warehouse.report.formats import p_clause, plural
from cachemend.warehouse.report.routing.analysis import Quality
from cachemend.warehouse.report.routing.names import setting_label
from cachemend.warehouse.report.routing.published import Paper

_VERIFIED = "verified at "
_COUNTS = ("ta", "tr", "fa", "fr", "agreement")


class QualityLine(NamedTuple):
    """One region, with the paper's counts in the same region (None where it gives none)."""

    row: Quality
    paper: dict[str, float | None]


def quality_lines(rows: Sequence[Quality], paper: Paper) -> list[QualityLine]:
    """Return all pairs asked about first, then the regions that settings send to the verifier."""
    return [QualityLine(row, _published(row.region, paper)) for row in _ordered(rows)]


def warnings(rows: Sequence[Quality], setting: str | None = None) -> list[str]:
    """Return one sentence per region whose verifier cannot be relied on.

    Args:
        rows: every region.
        setting: keeps, of the regions that settings send to the verifier, only this one's; None keeps all.
    """
    flagged = [row for row in _ordered(rows) if row.flag is not None]
    dropped = [] if setting is None else [row for row in flagged if row.region.startswith(_VERIFIED)]
    return [warning(row) for row in flagged if row not in dropped or row.region == f"{_VERIFIED}{setting}"]


def warning(row: Quality) -> str:
    """Say what a flag means.

    Args:
        row: a region with a flag.
    """
    where = f"On {region_label(row.region)}"
    if row.flag == "constant":
        accepted = row.ta + row.fa
        all_or_none = "accepts every one" if accepted else "accepts none"
        return (
            f"{where} the verifier {all_or_none} of {plural(row.n, 'pair')}: a constant verdict tells nothing, and "
            f"what is verified is {'returned' if accepted else 'regenerated'} whatever it is."
        )
    if row.flag == "chance-level":
        p = "" if row.p_chance is None else f" ({p_clause(row.p_chance)})"
        return (
            f"{where} the verifier accepts {row.ta} of {plural(row.ta + row.fr, 'valid pair')} and {row.fa} of "
            f"{plural(row.fa + row.tr, 'invalid pair')}: no better than chance is shown{p}."
        )
    return f"{where} the verifier is flagged as {row.flag}."


def region_label(region: str) -> str:
    """Return a region in running text."""
    if not region.startswith(_VERIFIED):
        return region
    return f"pairs {_VERIFIED}{setting_label(region.removeprefix(_VERIFIED))}"


def _ordered(rows: Sequence[Quality]) -> list[Quality]:
    return sorted(rows, key=lambda row: (row.region.startswith(_VERIFIED), row.region))


def _published(region: str, paper: Paper) -> dict[str, float | None]:
    if not region.startswith(_VERIFIED):
        return dict.fromkeys(_COUNTS)
    setting = region.removeprefix(_VERIFIED)
    return {name: paper.of_verifier(setting, name) for name in _COUNTS}
