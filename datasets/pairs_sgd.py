"""Pairs from Schema-Guided Dialogue: an answer of the system, asked for again in an equal or in a changed state.

Labels come from the annotation alone. A pair is valid where the new request stands in the state the answer rests on;
it is invalid where the state differs in a value the answer rests on and the system's own answer there contradicts the
cached one (paper section 4.1, dialogue-state changes). Every cached answer and every new request of a ring comes once
in a valid and once in an invalid pair, so neither side alone can tell the label. Half of the new requests come with an
earlier state of another service, on which no answer rests.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

from cachemend.datasets.pair import Pair
from cachemend.datasets.pair_build import SEED, Built, first_of_each_label, in_hard_arm, text_id
from cachemend.datasets.pairs_sgd_earlier import contexts_of_requests
from cachemend.datasets.pairs_sgd_files import read_dialogues, read_schema
from cachemend.datasets.pairs_sgd_rings import Ring, lines, rings_across, rings_within
from cachemend.datasets.pairs_sgd_turns import AnswerTurn, answer_turns
from cachemend.datasets.pairs_sgd_wording import reworded
from cachemend.datasets.seeded import below

QUOTA = 1542
# Of 1,542: so that the whole pool holds the paper's 1,667 valid and 1,558 invalid pairs.
_INVALID = 716
# Rings asked again in another dialogue's words, and rings within one dialogue: a quarter each, fixed beforehand.
_SHARE = 4


def build_sgd(folder: Path, *, n: int = QUOTA, seed: int = SEED) -> Built:
    """Build `n` pairs, 716 in 1,542 of them invalid, or as many as the files hold.

    Args:
        folder: the data folder, in which the source has ``sgd/dev``.
        n: the number of pairs.
        seed: the sampling seed.

    Raises:
        InputError: a file that is missing, cannot be read or has another form.
    """
    schema = read_schema(folder)
    turns, rejects = answer_turns(read_dialogues(folder), schema)
    pool = [turn for turn in turns if not in_hard_arm("sgd", turn.dialogue, seed=seed)]
    invalid = round(n * _INVALID / QUOTA)
    rings = _rings(pool, invalid, seed=seed)
    rejects["a turn in a dialogue of the hard arm"] = len(turns) - len(pool)
    rejects["a turn in no ring"] = len(pool) - len({turn.name for ring in rings for link in ring for turn in link})
    taken = {turn.dialogue for ring in rings for link in ring for turn in link}
    context = contexts_of_requests(pool, taken, seed=seed)
    # What the rings leave open of the valid pairs: natural ones, asked the other way round.
    turned = (
        _pair(link.again, link.cached.query, context(link.cached), _cluster(ring), "sgd-other-dialogue", 1)
        for ring in rings
        for link in ring
        if link.cached is not link.again
    )
    pairs = chain(chain.from_iterable(_pairs(ring, context, seed=seed) for ring in rings), turned)
    kept = first_of_each_label(pairs, valid=n - invalid, invalid=invalid)
    return Built(kept.pairs, dict(Counter(rejects) + Counter(kept.rejects)))


def _rings(turns: list[AnswerTurn], n_invalid: int, *, seed: int) -> list[Ring]:
    """Rings with `n_invalid` turns in all, or as many as there are; the scarce kinds are looked for first."""
    used: set[str] = set()
    all_lines = lines(turns, seed=seed)
    share = n_invalid // _SHARE
    rings: list[Ring] = []
    for source, limit in (
        (rings_across(all_lines, used, natural=True), share),
        (rings_within(turns, used, seed=seed), 2 * share),
        (rings_across(all_lines, used, natural=False), n_invalid),
    ):
        rings.extend(_up_to(source, limit - sum(map(len, rings))))
    return rings


def _up_to(rings: Iterator[Ring], count: int) -> Iterator[Ring]:
    while count > 0 and (ring := next(rings, None)) is not None:
        count -= len(ring)
        yield ring


def _pairs(ring: Ring, context: Callable[[AnswerTurn], str], *, seed: int) -> Iterator[Pair]:
    """Per turn of a ring, its answer asked for again in its own state and in the next one's."""
    cluster = _cluster(ring)
    within = len({link.cached.dialogue for link in ring}) == 1
    changed = "sgd-changed-in-dialogue" if within else "sgd-one-slot-apart"
    form = "sgd-reworded" if below(3, seed, "sgd", "form", cluster) == 0 else "sgd-repeat"
    rules = [form if link.cached is link.again else "sgd-other-dialogue" for link in ring]
    said = [
        reworded(link.again.query, seed, "sgd", link.again.name) if rule == "sgd-reworded" else link.again.query
        for link, rule in zip(ring, rules, strict=True)
    ]
    for place, link in enumerate(ring):
        nearby = (place + 1) % len(ring)
        yield _pair(link.cached, said[place], context(link.again), cluster, rules[place], 1)
        yield _pair(link.cached, said[nearby], context(ring[nearby].again), cluster, changed, 0)


def _cluster(ring: Ring) -> str:
    return "sgd:" + min(turn.dialogue for link in ring for turn in link)


def _pair(cached: AnswerTurn, said: str, context: str, cluster: str, rule: str, label: int) -> Pair:
    return Pair(
        pair_id=text_id("sgd", cached.query, cached.response, cached.context, said, context),
        pool="reconstruction",
        source="sgd",
        family="dialogue-state",
        cluster=cluster,
        rule=rule,
        label=label,
        q_cache=cached.query,
        r_cache=cached.response,
        context_cache=cached.context,
        q_probe=said,
        context_probe=context,
    )
