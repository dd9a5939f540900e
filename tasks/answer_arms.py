"""Build the arms of one case and answer them together: equal caches once, in as few batches as memory allows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple, Protocol

from torch import nn
from transformers.cache_utils import Cache

from cachemend.repair_core import Answer, answer_batch
from cachemend.repair_core.answering import answer_deltas
from cachemend.repair_core.caches import Rows
from cachemend.repair_core.deltas import Delta
from cachemend.tasks.failures import outcome_of


class Named(Protocol):
    """An arm, as far as answering it goes."""

    @property
    def name(self) -> str:
        """Unique among the arms of a case."""
        ...


class Built(NamedTuple):
    """An arm ready to be answered.

    Attributes:
        key: equal for arms whose caches are equal.
        cache: what to answer from: the rows that differ from the shared cache, or a cache of another length.
        row: what was measured so far, as columns of the records.
    """

    key: str | bytes
    cache: Cache | Delta
    row: dict[str, Any]


@dataclass(kw_only=True)
class ArmAnswers:
    """How the arms of one case are built, answered and read.

    Attributes:
        build: makes an arm's cache.
        ask: what each of several caches says.
        columns: what one answer adds to a record.
        failed: the measurement of an arm that gave no answer, from its outcome and reason.
        forget: drops what `build` keeps of the arms answered so far.
        limit: bytes that unanswered arms may hold.
    """

    build: Callable[[Any], Built]
    ask: Callable[[Sequence[Cache | Delta]], list[Answer]]
    columns: Callable[[Answer], dict[str, Any]]
    failed: Callable[[str, str], dict[str, Any]]
    forget: Callable[[], None]
    limit: int
    _scored: dict[str | bytes, dict[str, Any]] = field(default_factory=dict)

    def run(self, arms: Sequence[Named]) -> dict[str, dict[str, Any]]:
        """Return one measurement per arm, by name; an arm's failure is its measurement."""
        rows: dict[str, dict[str, Any]] = {}
        waiting: dict[str, Built] = {}
        for arm in arms:
            try:
                waiting[arm.name] = self.build(arm)
            except Exception as error:  # noqa: BLE001  (one arm's failure is that arm's record)
                rows[arm.name] = self.failed(*outcome_of(error))
            if sum(_held_bytes(built.cache) for built in waiting.values()) > self.limit:
                rows |= self._answer(waiting)
                waiting.clear()
                self.forget()
        return rows | self._answer(waiting)

    def _answer(self, waiting: dict[str, Built]) -> dict[str, dict[str, Any]]:
        """Answer what waits, equal caches once; what was said is kept."""
        new = {built.key: built.cache for built in waiting.values() if built.key not in self._scored}
        try:
            said = self.ask(list(new.values()))
        except Exception as error:  # noqa: BLE001  (these arms' failure is their record)
            failure = self.failed(*outcome_of(error))
            return {
                name: built.row | self._scored[built.key] if built.key in self._scored else dict(failure)
                for name, built in waiting.items()
            }
        self._scored |= {key: self.columns(answer) for key, answer in zip(new, said, strict=True)}
        return {name: built.row | self._scored[built.key] for name, built in waiting.items()}


def ask_caches(
    model: nn.Module,
    base: Sequence[Rows],
    caches: Sequence[Cache | Delta],
    query_ids: Sequence[int],
    max_new_tokens: int,
    continuations: Sequence[Sequence[int]],
) -> list[Answer]:
    """What each cache says; deltas from `base` are answered together, and so are whole caches of one length."""
    deltas = {index: cache for index, cache in enumerate(caches) if isinstance(cache, Delta)}
    options = (query_ids, max_new_tokens, (), continuations)
    said = dict(zip(deltas, answer_deltas(model, base, list(deltas.values()), *options), strict=True))
    whole = {index: cache for index, cache in enumerate(caches) if isinstance(cache, Cache)}
    for _, group in groupby(sorted(whole, key=lambda index: _length(whole[index])), key=lambda i: _length(whole[i])):
        same = list(group)
        said |= dict(zip(same, answer_batch(model, [whole[index] for index in same], *options), strict=True))
    return [said[index] for index in range(len(caches))]


def _length(cache: Cache) -> int:
    return cache.get_seq_length()


def _held_bytes(cache: Cache | Delta) -> int:
    """Bytes an arm keeps until it is answered; a whole cache is held by the case anyway."""
    return sum(k.nbytes + v.nbytes for k, v in cache.rows) if isinstance(cache, Delta) else 0
