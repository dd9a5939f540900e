"""What `cachemend calibrate` is asked for, checked before any work starts."""

from dataclasses import dataclass
from pathlib import Path

from cachemend.calibration.intervals import SEED
from cachemend.calibration.routing.budget import WINDOW
from cachemend.calibration.routing.exact import exact_rate, whole_part
from cachemend.repair_core.errors import InputError
from cachemend.tasks.encoding import NAME


@dataclass(frozen=True, kw_only=True)
class CalibrateOptions:
    """The options of the command.

    Attributes:
        file: the cache log.
        out: folder for what is written; None for one beside the log, named after it.
        alpha: greatest share of invalid responses among those returned, on the calibration pairs.
        budget: verifier calls per request.
        verdicts: Parquet file of the verifier's answers on the log; needed for a budget, and for nothing else.
        labels: a filled label sheet, for rows of the log without a label.
        encoder: query encoder.
        certify: choose only among policies whose risk a test bounds.
        seed: of the split, the request order and the test.

    Raises:
        InputError: a value out of range, or a budget without verdicts or the reverse.
    """

    file: Path
    out: Path | None = None
    alpha: float = 0.025
    budget: float = 0.0
    verdicts: Path | None = None
    labels: Path | None = None
    encoder: str = NAME
    certify: bool = False
    seed: int = SEED

    def __post_init__(self) -> None:
        if not 0 <= self.alpha < 1:
            raise InputError(
                f"--alpha {self.alpha:g} is not from 0 to below 1; 0.025 lets 2.5 % of returned responses be wrong"
            )
        if not 0 <= self.budget <= 1:
            raise InputError(f"--verifier-budget {self.budget:g} is not from 0 to 1; 0.3 is 30 calls per 100 requests")
        if self.budget and not whole_part(exact_rate("--verifier-budget", self.budget), WINDOW):
            raise InputError(
                f"--verifier-budget {self.budget:g} gives no call in {WINDOW} requests; give 0 or at least {1 / WINDOW}"
            )
        if self.budget and self.verdicts is None:
            raise InputError(f"--verifier-budget {self.budget:g} needs --verdicts, the verifier's answers on this log")
        if self.verdicts is not None and not self.budget:
            raise InputError(f"--verdicts {self.verdicts} needs --verifier-budget, the calls per request, such as 0.3")

    @property
    def folder(self) -> Path:
        """Where to write."""
        beside = self.file.with_name(f"{self.file.stem}-calibration")
        return (beside if self.out is None else self.out).expanduser()
