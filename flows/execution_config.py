"""The settings of the execution benchmark, and their validation before any work starts."""

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from cachemend.flows.config import Budgets
from cachemend.flows.model_config import Lengths, ModelConfig, Names, check_distinct, check_known
from cachemend.repair_core.errors import InputError
from cachemend.repair_core.executors import REPAIRING
from cachemend.repair_core.executors.backends import ATTENTIONS
from cachemend.repair_core.random_models import PREFIX, SHAPES
from cachemend.tasks.execution.attention_timing import AttentionSetup
from cachemend.tasks.execution.lines import COMPARED, attention_lines, refresh_lines
from cachemend.tasks.execution.protocol import ATTENTION, RECOVERY, REFRESH, Protocol
from cachemend.tasks.execution.recovery_timing import RecoverySetup
from cachemend.tasks.execution.refresh_timing import RefreshSetup
from cachemend.tasks.execution.supports import DELETED, matched_supports

STUDIES = ("refresh", "attention", "recovery")
LENGTHS = (2048, 8192)
RECOVERY_EXECUTORS = ("interval", "packed")


class ExecutionBenchConfig(ModelConfig):
    """The settings of the execution benchmark (paper section 13.3 and 13.4); defaults are the paper's protocol.

    Attributes:
        study: "refresh" (Table 18), "attention" (Table 19), "recovery" (Table 20), or "all" of them in this order.
        shape: random weights of this shape instead of `model`.
        lengths: N of refresh and attention; None for 2,048 and 8,192, as far as the model holds them.
        rows: B, positions recomputed.
        intervals: numbers of intervals R.
        executors: what refresh compares; recovery takes the interval-wise and the packed one of them. The experimental
            ones, which need a CUDA device, only where they are named.
        attentions: backends of the packed executor; one that cannot run here has a row that says so.
        warmups, repeats: rounds of refresh and attention; None for 10, and 20 or 30.
        recovery_lengths: tokens of the contexts of recovery; the paper's by default.
        recovery_warmups, recovery_repeats: rounds of recovery.
        budgets: percent of the retained suffix that recovery recomputes.
    """

    study: Literal["all", "refresh", "attention", "recovery"] = "all"
    shape: str | None = None
    lengths: Lengths | None = None
    rows: int = Field(default=64, ge=1)
    intervals: Lengths = (1, 4, 16)
    executors: Names = REPAIRING
    attentions: Names = ATTENTIONS
    warmups: int | None = Field(default=None, ge=0)
    repeats: int | None = Field(default=None, ge=1)
    recovery_lengths: Lengths = (1319, 1421, 1606, 2769)
    recovery_warmups: int = Field(default=RECOVERY.warmups, ge=0)
    recovery_repeats: int = Field(default=RECOVERY.repeats, ge=1)
    budgets: Budgets = (2.0, 5.0)

    @model_validator(mode="before")
    @classmethod
    def _name_the_shape(cls, values: Any) -> Any:
        """A shape becomes the model's name, so that every row says what ran."""
        if not isinstance(values, dict) or not isinstance(values.get("shape"), str):
            return values
        shape, model = values["shape"], values.get("model")
        check_known("shape", shape, SHAPES)
        if model is not None and model != PREFIX + shape:
            raise InputError(f"shape {shape!r} and model {model!r} exclude each other")
        return {**values, "model": PREFIX + shape}

    @model_validator(mode="after")
    def _check(self) -> Self:
        for key in ("lengths", "intervals", "executors", "attentions", "recovery_lengths", "budgets"):
            check_distinct(key, getattr(self, key))
        for key, choices in (("executors", COMPARED), ("attentions", ATTENTIONS)):
            for name in getattr(self, key):
                check_known(key, name, choices)
        for one, several in (("executor", "executors"), ("attention", "attentions")):
            if getattr(self, one) != type(self).model_fields[one].default:
                raise InputError(
                    f"{one} {getattr(self, one)!r} is one of several that are compared; give {several}=..."
                )
        if self.workers not in (None, 1):
            raise InputError(f"workers {self.workers} would share the machine while they are timed; leave it out")
        for length in self.lengths or LENGTHS:
            matched_supports(length, self.rows, self.intervals)
        return self

    @property
    def studies(self) -> tuple[str, ...]:
        """The studies to run, in order."""
        return STUDIES if self.study == "all" else (self.study,)

    def timed_lengths(self) -> tuple[int, ...]:
        """The lengths of refresh and attention, ascending; of the default ones those that the model holds."""
        if self.lengths is not None:
            return tuple(sorted(self.lengths))
        limit = self.limit()
        return tuple(n for n in LENGTHS if limit is None or n + DELETED <= limit)

    def arms(self) -> dict[str, RefreshSetup | AttentionSetup | RecoverySetup]:
        """What each study times of a context."""
        recovering = [name for name in RECOVERY_EXECUTORS if name in self.executors]
        first = self.attentions[:1]
        return {
            "refresh": RefreshSetup(
                intervals=self.intervals,
                lines=refresh_lines(self.executors, self.attentions),
                protocol=self._protocol(REFRESH),
            ),
            "attention": AttentionSetup(
                intervals=self.intervals,
                lines=attention_lines(self.attentions),
                protocol=self._protocol(ATTENTION),
            ),
            "recovery": RecoverySetup(
                budgets=self.budgets,
                refreshes=refresh_lines(recovering, first),
                protocol=Protocol(warmups=self.recovery_warmups, repeats=self.recovery_repeats),
            ),
        }

    def _protocol(self, paper: Protocol) -> Protocol:
        return Protocol(
            warmups=paper.warmups if self.warmups is None else self.warmups,
            repeats=paper.repeats if self.repeats is None else self.repeats,
        )

    def check_model(self) -> None:
        """Check that the model exists and holds every length; reads its configuration, not its weights.

        Raises:
            InputError: an unknown model, a folder without weights, or a length the model cannot hold.
        """
        limit = self.limit()
        if limit is None:
            return
        wanted = {
            "refresh": [n + DELETED for n in self.lengths or ()],
            "attention": [n + DELETED for n in self.lengths or ()],
            "recovery": list(self.recovery_lengths),
        }
        for study in self.studies:
            for needed in wanted[study]:
                if needed > limit:
                    raise InputError(
                        f"study {study!r} needs {needed} tokens and model {self.model!r} holds {limit}; choose others "
                        f"with --set {'recovery_lengths' if study == 'recovery' else 'lengths'}=..."
                    )
        if self.study != "recovery" and not self.timed_lengths():
            raise InputError(f"model {self.model!r} holds {limit} tokens; choose lengths with --set lengths=...")
