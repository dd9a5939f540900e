"""Similarity, condition signals and recorded verdicts of a log's rows, in this process."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from cachemend.calibration.candidate import Candidate
from cachemend.calibration.conditions import CandidateSignals, candidate_signals
from cachemend.calibration.routing.grid import DEFAULT_GRID
from cachemend.calibration.verdicts import Verdict, candidate_digest
from cachemend.repair_core.errors import InputError
from cachemend.tasks.encoding import Encoder
from cachemend.tasks.progress import progress
from cachemend.tasks.verifying.recorded import RecordedVerdicts

_BLOCK = 256
_NAMED = 5


class Measured(NamedTuple):
    """What a policy decides on before calibration, of n rows.

    Attributes:
        similarity: cosine of cached and new request, float64 ``[n]``.
        signals: of the conditions, arrays of shape ``[n]``.
    """

    similarity: NDArray[np.float64]
    signals: CandidateSignals


def measure(candidates: Sequence[Candidate], encoder: Encoder) -> Measured:
    """Encode the requests and compare the conditions. Rows with the same cached entry are best given together."""
    blocks = []
    with progress(len(candidates), "encode requests") as advance:
        for start in range(0, len(candidates), _BLOCK):
            block = candidates[start : start + _BLOCK]
            texts = [text for candidate in block for text in (candidate.q_cache, candidate.q_probe)]
            vectors = encoder.encode(texts).astype(np.float64)
            blocks.append((vectors[0::2] * vectors[1::2]).sum(axis=1))
            advance(len(block))
    # Rounding may carry the cosine of equal texts beyond 1.
    return Measured(np.clip(np.concatenate(blocks), -1, 1), candidate_signals(candidates))


class VerdictFile:
    """Recorded verdicts of a log.

    Args:
        path: Parquet file, see `RecordedVerdicts`.

    Raises:
        InputError: it cannot be read, or is no such file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._source = RecordedVerdicts(path)
        self._known = set(pq.read_table(path, columns=["candidate_digest"])["candidate_digest"].to_pylist())

    def verified(
        self, ids: Sequence[str], candidates: Sequence[Candidate], similarity: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """Tell where the verifier said exactly VALID, bool ``[n]``.

        Rows less similar than every policy asks for are never verified and need no verdict.

        Raises:
            InputError: a row that may be verified has no answer.
        """
        asked = np.flatnonzero(similarity >= min(DEFAULT_GRID.tau_v)).tolist()
        self._refuse([ids[at] for at in asked if candidate_digest(candidates[at]) not in self._known], "no verdict")
        verdicts = self._source.verdicts([candidates[at] for at in asked])
        failed = [ids[at] for at, verdict in zip(asked, verdicts, strict=True) if verdict is Verdict.FAILED]
        self._refuse(failed, "the verdict FAILED, which is no answer")
        says_valid = np.zeros(len(candidates), dtype=bool)
        says_valid[asked] = [verdict.accepts for verdict in verdicts]
        return says_valid

    def _refuse(self, ids: list[str], why: str) -> None:
        if ids:
            more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
            raise InputError(
                f"recorded verdicts {self._path}: {len(ids)} pairs that may be verified have {why}: "
                f"{', '.join(ids[:_NAMED])}{more}; ask the verifier about them"
            )
