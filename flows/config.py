"""The settings of an Erasing-NIAH run, and their validation before any work starts."""

from dataclasses import replace
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from cachemend.datasets.niah_rosters import ROSTERS
from cachemend.datasets.niah_spec import NiahRoster
from cachemend.repair_core.allocators import get_allocator, names
from cachemend.repair_core.arms import Arm, sweep_arms
from cachemend.repair_core.budget import parse_percent
from cachemend.repair_core.embedded import EMBEDDED
from cachemend.repair_core.errors import InputError, nearest
from cachemend.repair_core.executors import EXECUTORS
from cachemend.repair_core.models import DTYPES, context_limit
from cachemend.repair_core.refreshing import ATTENTIONS

CONTROLS = ("sur", "dense-tokens", "max-relevance-window", "bm25-units", "random-units")
DEFAULT_BUDGETS = (2.0, 5.0, 10.0, 20.0)
COMPLETE_BUDGETS = (2.0, 5.0, 10.0, 20.0, 40.0, 80.0)


def _listed(value: Any) -> Any:
    """One value and "a,b" are lists too: `--set budgets=5`, `--set lengths=300,600`."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return [value] if isinstance(value, int | float) else value


def _budgets(value: Any) -> Any:
    listed = _listed(value)
    if not isinstance(listed, list | tuple):
        return listed
    if any(isinstance(item, bool) for item in listed):
        raise InputError(f"budgets {listed} must be percentages from 0 to 100")
    return [float(parse_percent(item)) for item in listed]


Names = Annotated[tuple[str, ...], BeforeValidator(_listed)]
Lengths = Annotated[tuple[Annotated[int, Field(ge=1)], ...], BeforeValidator(_listed)]
Budgets = Annotated[tuple[float, ...], BeforeValidator(_budgets)]


class ErasingNiahConfig(BaseModel):
    """The settings of an Erasing-NIAH run (paper sections 4.2 and 7).

    Attributes:
        model: "smollm2-135m" (embedded), a local folder, or a Hugging Face name.
        revision: hub branch, tag or commit.
        dtype: "auto" for the checkpoint's own, or float32, bfloat16, float16.
        device: "cpu" or "cuda"; None takes a GPU where the cluster has one.
        device_map: placement over several GPUs, as `from_pretrained` takes it.
        trust_remote_code: run code that comes with the checkpoint.
        sweep: "default" (or "demo"): SUR and the four controls at 2, 5, 10, 20 %; "complete": every allocator
            at 2, 5, 10, 20, 40, 80 %.
        allocators: instead of the sweep's.
        budgets: percentages of the retained suffix, instead of the sweep's.
        cases: roster of cases; None for "embedded" on embedded models and "paper-96" on all others.
        lengths: context lengths in tokens, instead of the roster's.
        seed: first seed of the cases, instead of the roster's; another seed is another cohort.
        executor: how chosen rows are recomputed.
        attention: attention backend of the packed executor.
        auxiliary: the model whose states SpecCache scores; None for `model` itself (the paper: Llama-3.2-1B-Instruct).
        store_text: keep contexts, deleted texts and queries in the `cases` table.
        workers: model copies; None to fit the machine.
        threads: CPU threads of each; None to fit the machine.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = "smollm2-135m"
    revision: str | None = None
    dtype: str = "auto"
    device: str | None = None
    device_map: str | dict[str, int | str] | None = None
    trust_remote_code: bool = False
    sweep: Literal["default", "demo", "complete"] = "default"
    allocators: Names | None = None
    budgets: Budgets | None = None
    cases: str | None = None
    lengths: Lengths | None = None
    seed: int | None = Field(default=None, ge=0)
    executor: str = "packed"
    attention: str = "sdpa"
    auxiliary: str | None = None
    store_text: bool = False
    workers: int | None = Field(default=None, ge=1)
    threads: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _check(self) -> Self:
        known: tuple[tuple[str, str | None, Any], ...] = (
            ("dtype", self.dtype, DTYPES),
            ("cases", self.cases, ROSTERS),
            ("executor", self.executor, EXECUTORS),
            ("attention", self.attention, ATTENTIONS),
        )
        for key, value, choices in known:
            if value is not None and value not in choices:
                raise InputError(f"{key} {value!r} is unknown; {nearest(value, choices)}")
        for allocator in self.allocators or ():
            get_allocator(allocator)
        for key, values in (("allocators", self.allocators), ("budgets", self.budgets), ("lengths", self.lengths)):
            if values is not None and not values:
                raise InputError(f"{key} is an empty list; leave it out for the default")
            if values is not None and len(set(values)) != len(values):
                raise InputError(f"{key} {list(values)} names the same value twice")
        if self.device is not None and self.device.split(":")[0] not in ("cpu", "cuda"):
            raise InputError(f"device {self.device!r} is unknown; give cpu or cuda")
        if self.device is not None and self.device_map is not None:
            raise InputError(f"device {self.device!r} and device_map {self.device_map!r} exclude each other")
        self.roster()
        return self

    def arms(self) -> tuple[Arm, ...]:
        """The four references, then every allocator at every budget."""
        complete = self.sweep == "complete"
        allocators = self.allocators if self.allocators is not None else names() if complete else CONTROLS
        default = COMPLETE_BUDGETS if complete else DEFAULT_BUDGETS
        return sweep_arms(allocators, self.budgets if self.budgets is not None else default)

    def roster(self) -> NiahRoster:
        """The roster to build, with its lengths replaced where the run names its own."""
        roster = ROSTERS[self.cases or ("embedded" if self.model in EMBEDDED else "paper-96")]
        if self.lengths is not None:
            roster = replace(roster, lengths=tuple(sorted(self.lengths)))
        return roster if self.seed is None else replace(roster, first_seed=self.seed)

    def check_model(self) -> None:
        """Check that the models exist and hold every length; reads its configuration, not its weights.

        Raises:
            InputError: an unknown model, a folder without weights, or a length the model cannot hold.
        """
        roster = self.roster()
        limits = {self.model: context_limit(self.model, self.revision, self.trust_remote_code)}
        if self.auxiliary is not None:
            limits.setdefault(self.auxiliary, context_limit(self.auxiliary))
        for model, limit in limits.items():
            for length in roster.lengths:
                if limit is not None and length + roster.max_new_tokens > limit:
                    raise InputError(
                        f"length {length} and {roster.max_new_tokens} new tokens exceed the {limit} tokens that model "
                        f"{model!r} holds; choose others with --set lengths=..."
                    )
