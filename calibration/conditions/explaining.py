"""Why a cached answer was or was not fit for a request: conditions, their matches, and the rules that fired."""

from dataclasses import asdict, dataclass
from typing import Any

from cachemend.calibration.candidate import Candidate
from cachemend.calibration.conditions.evidence import compare
from cachemend.calibration.conditions.extracting import Condition, Origin, Origins, origins_of, read_side
from cachemend.calibration.conditions.guards import Conflicts, conflicts_of
from cachemend.calibration.conditions.lexicon import Lexicon, load_lexicon
from cachemend.calibration.conditions.matching import Matching, match


@dataclass(frozen=True, kw_only=True)
class Found:
    """A condition and the passages it was found in."""

    condition: Condition
    origins: tuple[Origin, ...]


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Everything the signals of one candidate rest on.

    Attributes:
        cache: conditions of the cached answer, with their origins.
        request: facts of the request, with theirs.
        matching: mismatch, uncertainty and each condition's best support.
        conflicts: the contradictions found.
        lexicon_version, lexicon_digest: the lexicon it was read by.
    """

    cache: tuple[Found, ...]
    request: tuple[Found, ...]
    matching: Matching
    conflicts: Conflicts
    lexicon_version: str
    lexicon_digest: str

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain dictionaries, lists, strings and numbers, ready for JSON."""
        return {name: _plain(value) for name, value in asdict(self).items()}


def explain(candidate: Candidate, *, lexicon: Lexicon | None = None) -> Explanation:
    """Explain the signals of one candidate.

    The result quotes the candidate's texts; treat it as confidential as they are.
    """
    words = lexicon or load_lexicon()
    cache = read_side(candidate.q_cache, candidate.context_cache, candidate.r_cache, lexicon=words)
    request = read_side(candidate.q_probe, candidate.context_probe, lexicon=words)
    ours, theirs = origins_of(cache), origins_of(request)
    return Explanation(
        cache=_found(ours),
        request=_found(theirs),
        matching=match(tuple(ours), tuple(theirs)),
        conflicts=conflicts_of(compare(cache, request, ours, theirs, words)),
        lexicon_version=words.version,
        lexicon_digest=words.digest,
    )


def _found(origins: Origins) -> tuple[Found, ...]:
    return tuple(Found(condition=condition, origins=passages) for condition, passages in origins.items())


def _plain(value: Any) -> Any:
    """Turn named tuples into dictionaries and other tuples into lists."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: _plain(item) for name, item in value._asdict().items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value
