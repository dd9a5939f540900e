"""What all times of the execution benchmark share of their identity."""

from dataclasses import asdict, dataclass
from typing import Any

from cachemend.tasks.identity import SharedIdentity

EXPERIMENT = "execution-bench"


@dataclass(frozen=True, kw_only=True)
class ExecutionIdentity(SharedIdentity):
    """What they share; executor and attention are those of each line.

    Attributes:
        device: what they were measured on.
        weights: "random" or "checkpoint".
        torch_version: version of PyTorch.
    """

    device: str
    weights: str
    torch_version: str

    def of(self, case_digest: str, arm: Any) -> dict[str, Any]:  # noqa: ARG002
        """The identity columns of the times of one case."""
        return {**asdict(self), "case_digest": case_digest}
