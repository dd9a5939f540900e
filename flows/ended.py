"""What the end of a run looks like to the command, whatever the experiment."""

from typing import Any, Protocol


class Ended(Protocol):
    """The end of a run."""

    @property
    def failures(self) -> list[dict[str, Any]]:
        """Records it covers whose latest outcome is not ok."""
        ...
