"""The settings all experiments share: which model, where and how it runs."""

import re
from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from cachemend.repair_core.errors import InputError, nearest
from cachemend.repair_core.executors import EXECUTORS, get_executor
from cachemend.repair_core.models import DTYPES, context_limit
from cachemend.repair_core.refreshing import ATTENTIONS
from cachemend.tasks.worker_spec import WorkerSpec


def listed(value: Any) -> Any:
    """One value and "a,b" are lists too: `--set budgets=5`, `--set lengths=300,600`."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return [value] if isinstance(value, int | float) else value


def _whole(value: Any) -> Any:
    """The same for whole numbers: the parts of "a,b" are texts."""
    items = listed(value)
    if not isinstance(items, list | tuple):
        return items
    return [int(item) if isinstance(item, str) and re.fullmatch(r"-?[0-9]+", item) else item for item in items]


# Strict: YAML's `true` and 2.0 are no counts.
Whole = Annotated[int, Field(strict=True)]
Names = Annotated[tuple[str, ...], BeforeValidator(listed)]
Lengths = Annotated[tuple[Annotated[Whole, Field(ge=1)], ...], BeforeValidator(_whole)]


class ModelConfig(BaseModel):
    """The settings every experiment has.

    Attributes:
        model: "smollm2-135m" (embedded), a local folder, or a Hugging Face name.
        revision: hub branch, tag or commit.
        dtype: "auto" for the checkpoint's own, or float32, bfloat16, float16.
        device: "cpu" or "cuda"; None takes a GPU where the cluster has one.
        device_map: placement over several GPUs, as `from_pretrained` takes it.
        trust_remote_code: run code that comes with the checkpoint.
        seed: first seed of the cases, instead of the roster's; another seed is another cohort.
        executor: how chosen rows are recomputed.
        offered_executors: what the message about an unknown one offers.
        attention: attention backend of the packed executor.
        store_text: keep texts in the table of cases.
        workers: model copies; None to fit the machine.
        threads: CPU threads of each; None to fit the machine.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    offered_executors: ClassVar[tuple[str, ...]] = tuple(EXECUTORS)

    model: str = "smollm2-135m"
    revision: str | None = None
    dtype: str = "auto"
    device: str | None = None
    device_map: str | dict[str, int | str] | None = None
    trust_remote_code: bool = False
    seed: Whole | None = Field(default=None, ge=0)
    executor: str = "packed"
    attention: str = "sdpa"
    store_text: bool = False
    workers: Whole | None = Field(default=None, ge=1)
    threads: Whole | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _check_place(self) -> Self:
        check_known("dtype", self.dtype, DTYPES)
        if self.executor not in EXECUTORS:
            check_known("executor", self.executor, self.offered_executors)
        check_known("attention", self.attention, ATTENTIONS)
        get_executor(self.executor, 1, self.attention)
        if self.device is not None and self.device.split(":")[0] not in ("cpu", "cuda"):
            raise InputError(f"device {self.device!r} is unknown; give cpu or cuda")
        if self.device is not None and self.device_map is not None:
            raise InputError(f"device {self.device!r} and device_map {self.device_map!r} exclude each other")
        return self

    def limit(self) -> int | None:
        """The longest context of the model in tokens; reads its configuration, not its weights."""
        return context_limit(self.model, self.revision, self.trust_remote_code)

    def worker(
        self, *, max_new_tokens: int, score_rule: str, auxiliary: str | None = None, min_gap: float = 0.0
    ) -> WorkerSpec:
        """What the workers of a run with these settings are told; the arguments are those of `WorkerSpec`."""
        return WorkerSpec(
            model=self.model,
            revision=self.revision,
            dtype=self.dtype,
            device=self.device,
            device_map=self.device_map,
            trust_remote_code=self.trust_remote_code,
            executor=self.executor,
            attention=self.attention,
            auxiliary=auxiliary,
            max_new_tokens=max_new_tokens,
            score_rule=score_rule,
            min_gap=min_gap,
        )

    def check_model(self) -> None:
        """Check that the model exists and holds every context; reads its configuration, not its weights.

        Raises:
            InputError: an unknown model, a folder without weights, or a length the model cannot hold.
        """
        self.limit()


def check_known(key: str, value: str | None, choices: Iterable[str]) -> None:
    """Raise InputError unless `value` is one of `choices`, or None."""
    if value is not None and value not in choices:
        raise InputError(f"{key} {value!r} is unknown; {nearest(value, choices)}")


def check_distinct(key: str, values: tuple[Any, ...] | None) -> None:
    """Raise InputError for a list that is empty or names a value twice."""
    if values is not None and not values:
        raise InputError(f"{key} is an empty list; leave it out for the default")
    if values is not None and len(set(values)) != len(values):
        raise InputError(f"{key} {list(values)} names the same value twice")
