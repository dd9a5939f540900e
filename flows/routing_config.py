"""The settings of a response-routing run, and their validation before any work starts."""

from dataclasses import fields
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from cachemend.calibration.intervals import SEED
from cachemend.calibration.splits import N_SPLITS
from cachemend.flows.model_config import ModelConfig, Names, Whole, check_distinct, check_known
from cachemend.repair_core.errors import InputError
from cachemend.tasks.encoding import NAME as ENCODER
from cachemend.tasks.verifying.endpoint import Endpoint

RUN_POOLS = ("seed", "reconstruction", "hard", "stress")

_LIMITS = tuple(field.name for field in fields(Endpoint) if field.name not in ("url", "model"))
_ENDPOINT = ("endpoint", "endpoint_model", *(f"endpoint_{name}" for name in _LIMITS))


class ResponseRoutingConfig(ModelConfig):
    """The settings of a response-routing run (paper "Beyond Query Similarity", section 4.1).

    Attributes:
        model: the local verifier, where `verifier` is "local".
        pools: "seed" (shipped), "reconstruction", "hard" and "stress" (built from official files in the data folder);
            None for the seed set and every other whose files are there.
        verifier: "local" (the model), "endpoint" (an OpenAI-compatible server), "recorded" (a file), or "none".
        endpoint: base address of the server; its key comes from CACHEMEND_VERIFIER_KEY.
        endpoint_model: the verifier's name there.
        endpoint_attempt_seconds, endpoint_deadline_seconds, endpoint_retries, endpoint_backoff_seconds: time-out of an
            attempt, of a pair with all its attempts, attempts after the first, and the wait before them.
        endpoint_concurrency, endpoint_per_second, endpoint_failures: calls at a time, attempts per second at most, and
            pairs in a row that fail until no more are asked; all as in `Endpoint`, whose values None keeps.
        verdicts: Parquet file of recorded verdicts.
        encoder: query encoder: "all-MiniLM-L6-v2", a local folder or a hub name.
        language_baselines: also ask the local model what Cache-Me and Conditional-PPL need.
        own_guards: whether the guards that the paper does not have (`conditions/guards_*.py`) count as conflicts.
        splits: repeated splits.
        seed: of the splits; the pools have seeds of their own.
    """

    pools: Names | None = None
    verifier: Literal["local", "endpoint", "recorded", "none"] = "local"
    endpoint: str | None = None
    endpoint_model: str | None = None
    endpoint_attempt_seconds: float | None = None
    endpoint_deadline_seconds: float | None = None
    endpoint_retries: int | None = None
    endpoint_backoff_seconds: float | None = None
    endpoint_concurrency: int | None = None
    endpoint_per_second: float | None = None
    endpoint_failures: int | None = None
    verdicts: str | None = None
    encoder: str = ENCODER
    language_baselines: bool = True
    own_guards: bool = True
    splits: Whole = Field(default=N_SPLITS, ge=2)
    seed: Whole = Field(default=SEED, ge=0)

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_distinct("pools", self.pools)
        for pool in self.pools or ():
            check_known("pools", pool, RUN_POOLS)
        if self.pools == ("stress",):
            raise InputError("pools ['stress'] has nothing to calibrate on; give a further pool, such as seed")
        if self.verifier == "endpoint":
            self.server()
        else:
            for name in _ENDPOINT:
                if getattr(self, name) is not None:
                    raise InputError(f"{name} is given, but verifier is {self.verifier!r}; give verifier=endpoint")
        if (self.verifier == "recorded") != (self.verdicts is not None):
            raise InputError("verdicts names the file of verifier=recorded; give both or neither")
        if self.verdicts is not None and not Path(self.verdicts).is_file():
            raise InputError(f"verdicts {self.verdicts!r} is no file; give a Parquet file of recorded verdicts")
        return self

    def server(self) -> Endpoint:
        """The endpoint.

        Raises:
            InputError: no address or no model name, an address that is none, or a limit out of range.
        """
        if self.endpoint is None or self.endpoint_model is None:
            raise InputError("verifier 'endpoint' needs endpoint (https://host/v1) and endpoint_model")
        limits = {name: value for name in _LIMITS if (value := getattr(self, f"endpoint_{name}")) is not None}
        return Endpoint(url=self.endpoint, model=self.endpoint_model, **limits)

    @property
    def needs_model(self) -> bool:
        """Whether the local model runs at all."""
        return self.verifier == "local" or self.language_baselines

    def check_model(self) -> None:
        if self.needs_model:
            super().check_model()
