"""The hard arm: invalid pairs whose two requests are the same words, valid ones whose requests are worded far apart.

Chosen by edit rule, never by a score. The rules only ask of the source structure that a request does not name what
makes its answer change: then the same words fit both states. Plain and heavy wordings change sides from one cached
answer to the next, so neither the cached nor the new request's style tells the label. The dialogues and questions are
others than those of the pool. XSTest is not part of it: its prompts have no context that could change.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from cachemend.datasets.pair import Pair
from cachemend.datasets.pair_build import SEED, Built, first_of_each_label, in_hard_arm, text_id
from cachemend.datasets.pairs_sgd_earlier import contexts_of_requests
from cachemend.datasets.pairs_sgd_files import Schema, read_dialogues, read_schema
from cachemend.datasets.pairs_sgd_rings import Line, Ring, lines, rings_across
from cachemend.datasets.pairs_sgd_turns import AnswerTurn, answer_turns
from cachemend.datasets.pairs_sgd_wording import schema_wording
from cachemend.datasets.pairs_situated import Shift, shifts, situated_pair
from cachemend.datasets.pairs_situated_files import Question, read_questions
from cachemend.datasets.seeded import below

SGD_QUOTA = 400
SITUATED_QUOTA = 240

_ASKS = re.compile(r"(?i)(how (?:many|much|long|often|old|far)|how|when|where|who|whom|whose|what|which|why)\s+")
_AUXILIARY = re.compile(r"(?i)(?:is|are|was|were|did|do|does|has|have|had|will|can)\s+")


def build_sgd_hard(folder: Path, *, n: int = SGD_QUOTA, seed: int = SEED) -> Built:
    """Build `n` hard pairs from Schema-Guided Dialogue, half of them valid, or as many as the files hold.

    Invalid: the same utterance in a state that differs in one slot which the utterance does not name. Valid: the
    same state, the request said in the schema's descriptions.

    Raises:
        InputError: a file that is missing, cannot be read or has another form.
    """
    schema = read_schema(folder)
    turns, _ = answer_turns(read_dialogues(folder), schema)
    hard = [t for t in turns if t.kind != "confirm" and in_hard_arm("sgd", t.dialogue, seed=seed)]
    silent = [_silent(line) for line in lines(hard, seed=seed)]
    taken: set[str] = set()
    rings = list(rings_across(silent, taken, natural=False))
    context = contexts_of_requests(hard, taken, seed=seed)
    pairs = (pair for ring in rings for pair in _sgd_pairs(ring, schema, context, seed=seed))
    kept = first_of_each_label(pairs, valid=n - n // 2, invalid=n // 2)
    return Built(kept.pairs, {"a turn of the pool's arm or of another kind": len(turns) - len(hard), **kept.rejects})


def _silent(line: Line) -> Line:
    """The line with only the turns whose utterance names no value of its free slot."""
    return line._replace(
        turns=tuple(tuple(turn for turn in turns if not names_a_value(turn, line)) for turns in line.turns)
    )


def names_a_value(turn: AnswerTurn, line: Line) -> bool:
    """Whether an utterance states the line's free slot, or holds one of its values as words."""
    if any(slot == line.slot for slot, _ in turn.stated):
        return True
    if line.slot == "offered":
        values = {value for others in line.turns for other in others for _, value in other.offer}
    else:
        values = set(line.values)
    said = turn.query.casefold()
    return any(re.search(rf"(?<!\w){re.escape(value.casefold())}(?!\w)", said) for value in values)


def _sgd_pairs(ring: Ring, schema: Schema, context: Callable[[AnswerTurn], str], *, seed: int) -> Iterator[Pair]:
    cluster = "sgd:" + min(link.cached.dialogue for link in ring)
    start = below(2, seed, "sgd", "hard wording", cluster)
    for place, link in enumerate(ring):
        turn, elsewhere = link.cached, ring[(place + 1) % len(ring)].cached
        plain, heavy = turn.query, schema_wording(turn, schema)
        first, second = (plain, heavy) if (start + place) % 2 == 0 else (heavy, plain)
        for said, there, rule, label in (
            (second, context(turn), "hard-sgd-heavily-reworded", 1),
            (first, context(elsewhere), "hard-sgd-same-words", 0),
        ):
            yield Pair(
                pair_id=text_id("sgd", first, turn.response, turn.context, said, there),
                pool="hard",
                source="sgd",
                family="dialogue-state",
                cluster=cluster,
                rule=rule,
                label=label,
                q_cache=first,
                r_cache=turn.response,
                context_cache=turn.context,
                q_probe=said,
                context_probe=there,
            )


def build_situated_hard(folder: Path, *, n: int = SITUATED_QUOTA, seed: int = SEED) -> Built:
    """Build `n` hard pairs from SituatedQA, half of them valid, or as many as the file holds.

    Invalid: the same words at a date of another answer. Valid: the question turned round, at a date of the same
    answer.

    Raises:
        InputError: a file that is missing or cannot be read, or a row of another form.
    """
    rejects: Counter[str] = Counter()
    pairs: list[Pair] = []
    for question, shift in shifts(read_questions(folder), rejects, hard=True, seed=seed):
        pairs.extend(_situated_pairs(question, shift, seed=seed))
    kept = first_of_each_label(pairs, valid=n - n // 2, invalid=n // 2)
    return Built(kept.pairs, dict(rejects + Counter(kept.rejects)))


def turned_round(question: str) -> str:
    """Say a question with what it asks for at its end: "when did it rain" -> "it rain - please tell me when"."""
    asks = _ASKS.match(question)
    if asks is None:
        return f"regarding {question}, please give me the answer"
    rest = question[asks.end() :]
    auxiliary = _AUXILIARY.match(rest)
    return f"{rest[auxiliary.end() :] if auxiliary else rest} - please tell me {asks[1]}"


def _situated_pairs(question: Question, shift: Shift, *, seed: int) -> Iterator[Pair]:
    plain, heavy = question.words, turned_round(question.words)
    swap = below(2, seed, "situatedqa", "hard wording", question.name) == 1
    first, second = (heavy, plain) if swap else (plain, heavy)
    for (cached, again), (_, elsewhen), words, other in (
        (shift.earlier, shift.later, first, second),
        (shift.later, shift.earlier, second, first),
    ):
        yield situated_pair(
            question, cached, again, rule="hard-situated-heavily-reworded", label=1, pool="hard", words=(words, other)
        )
        yield situated_pair(
            question, cached, elsewhen, rule="hard-situated-same-words", label=0, pool="hard", words=(words, words)
        )
