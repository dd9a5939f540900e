"""Pairs from SituatedQA: an answer as of one date, asked for again as of another date.

Valid where the source gives equal sets of answers for both dates, invalid where the two sets have nothing in common
(paper section 4.1, temporal freshness); sets that overlap are not used. A question gives four pairs over two dates of
each of two answers, so every cached answer and every new request comes once in a valid and once in an invalid pair.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from cachemend.datasets.pair import Pair
from cachemend.datasets.pair_build import SEED, Built, first_of_each_label, in_hard_arm, text_id
from cachemend.datasets.pairs_situated_files import Asked, Question, read_questions
from cachemend.datasets.seeded import draw

QUOTA = 300


class Shift(NamedTuple):
    """Two answers of one question, each at two dates.

    Attributes:
        earlier, later: (the date whose answer is cached, the date asked for again), for either answer.
    """

    earlier: tuple[Asked, Asked]
    later: tuple[Asked, Asked]


def build_situated(folder: Path, *, n: int = QUOTA, seed: int = SEED) -> Built:
    """Build `n` pairs, half of them valid, or as many as the file holds.

    Args:
        folder: the data folder, in which the source has ``situatedqa/qa_data``.
        n: the number of pairs.
        seed: the sampling seed.

    Raises:
        InputError: a file that is missing or cannot be read, or a row of another form.
    """
    rejects: Counter[str] = Counter()
    pairs: list[Pair] = []
    for question, shift in shifts(read_questions(folder), rejects, hard=False, seed=seed):
        pairs.extend(_pairs(question, shift))
    kept = first_of_each_label(pairs, valid=n // 2, invalid=n - n // 2)
    return Built(kept.pairs, dict(rejects + Counter(kept.rejects)))


def shifts(
    questions: list[Question], rejects: Counter[str], *, hard: bool, seed: int
) -> Iterator[tuple[Question, Shift]]:
    """Yield the questions of one arm that have two answers without overlap at two dates each, in a seeded order.

    Args:
        questions: all questions.
        rejects: reasons of those left out are added to it.
        hard: the questions of the hard arm, rather than those of the pool.
        seed: the sampling seed.
    """
    for question in sorted(questions, key=lambda question: (draw(seed, "situatedqa", question.name), question.name)):
        if in_hard_arm("situatedqa", question.name, seed=seed) != hard:
            rejects["a question of the other arm"] += 1
            continue
        found = _shift(question, seed)
        if isinstance(found, str):
            rejects[found] += 1
        else:
            yield question, found


def _shift(question: Question, seed: int) -> Shift | str:
    at: dict[str, set[frozenset[str]]] = {}
    for asked in question.asked:
        at.setdefault(asked.date, set()).add(asked.key)
    if any(len(keys) > 1 for keys in at.values()):
        return "two answers at one date"
    dates: dict[frozenset[str], dict[str, Asked]] = {}
    for asked in question.asked:
        if asked.key:
            dates.setdefault(asked.key, {}).setdefault(asked.date, asked)
    lasting = [list(by_date.values()) for by_date in dates.values() if len(by_date) > 1]
    apart = [(one, other) for one, other in combinations(lasting, 2) if not one[0].key & other[0].key]
    if not apart:
        return "one answer only" if len(dates) < 2 else "no two answers of two dates each without overlap"
    pairs = min(apart, key=lambda two: draw(seed, "situatedqa", question.name, two[0][0].row, two[1][0].row))
    first, second = (sorted(group, key=lambda asked: draw(seed, "situatedqa", asked.row))[:2] for group in pairs)
    return Shift((first[0], first[1]), (second[0], second[1]))


def as_of(asked: Asked) -> str:
    """The context of a request: the date it is asked for."""
    return f"as of {asked.date}"


def situated_pair(
    question: Question, cached: Asked, probe: Asked, *, rule: str, label: int, pool: str, words: tuple[str, str]
) -> Pair:
    """Make the pair of one cached answer and one new request, worded as `words` says (cached, new)."""
    response = ", ".join(cached.answers)
    return Pair(
        pair_id=text_id("situatedqa", words[0], response, as_of(cached), words[1], as_of(probe)),
        pool=pool,
        source="situatedqa",
        family="freshness",
        cluster=f"situatedqa:{question.name}",
        rule=rule,
        label=label,
        q_cache=words[0],
        r_cache=response,
        context_cache=as_of(cached),
        q_probe=words[1],
        context_probe=as_of(probe),
    )


def _pairs(question: Question, shift: Shift) -> Iterator[Pair]:
    for (cached, again), (_, elsewhen) in ((shift.earlier, shift.later), (shift.later, shift.earlier)):
        for probe, rule, label in ((again, "situated-same-answer", 1), (elsewhen, "situated-other-answer", 0)):
            words = (cached.dated, probe.dated)
            yield situated_pair(question, cached, probe, rule=rule, label=label, pool="reconstruction", words=words)
