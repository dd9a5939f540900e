"""The response-reuse paper's figures, looked up by what they are of: its own pairs, for reading beside."""

from pathlib import Path

from cachemend.warehouse import store
from cachemend.warehouse.published_routing import EXPERIMENT, PublishedRouting
from cachemend.warehouse.report.routing.analysis import Arm

STRESS = "stress"


class Paper:
    """Published figures for one kind of pool."""

    def __init__(self, figures: list[PublishedRouting]) -> None:
        self._figures = figures

    def of_arm(self, arm: Arm, metric: str) -> float | None:
        """Return a figure of a method and setting."""
        return self._first(metric, method=arm.method, setting=arm.setting, family=None, ablation=None)

    def pooled(self, arm: Arm) -> tuple[float, float] | None:
        """Return VCHR and FH of a method's counts (Table 11); None where there are no counts or no hits."""
        counts = [self.of_arm(arm, metric) for metric in ("n_valid", "n_invalid")]
        exposures = next((f.n for f in self._figures if f.metric == "accepted" and f.n), None)
        valid, invalid = counts
        if valid is None or invalid is None or exposures is None or not valid + invalid:
            return None
        return valid / exposures, invalid / (valid + invalid)

    def of_family(self, arm: Arm, family: str, metric: str) -> float | None:
        """Return a figure of a method and setting within one change family."""
        return self._first(metric, method=arm.method, setting=arm.setting, family=family)

    def of_ablation(self, ablation: str, setting: str, metric: str) -> float | None:
        """Return a figure of an ablation."""
        return self._first(metric, ablation=ablation, setting=setting)

    def of_signal(self, signal: str, metric: str) -> float | None:
        """Return a figure of a signal."""
        return self._first(metric, signal=signal)

    def of_verifier(self, setting: str, metric: str) -> float | None:
        """Return a figure of the paper's main verifier in the region a setting sends to it."""
        return self._first(metric, table=13, setting=setting)

    def plain(self, metric: str) -> float | None:
        """Return a figure that is of no method."""
        return self._first(metric, method=None, signal=None, setting=None)

    def _first(self, metric: str, **wanted: str | int | None) -> float | None:
        for figure in self._figures:
            if figure.metric == metric and all(getattr(figure, name) == value for name, value in wanted.items()):
                return figure.value
        return None


def read_paper(results: Path) -> dict[bool, Paper]:
    """Return the published figures on adversarial inputs (True) and those on ordinary pairs (False)."""
    columns = ", ".join(f'"{name}"' for name in PublishedRouting._fields)
    answer = store.ask(results, f"SELECT {columns} FROM published WHERE experiment = '{EXPERIMENT}'")
    figures = [PublishedRouting(**row) for row in answer.table.to_pylist()]
    return {
        stressed: Paper([figure for figure in figures if (figure.pool == STRESS) == stressed])
        for stressed in (True, False)
    }
