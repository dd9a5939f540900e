"""Pairs about tool state, from tau-bench: does an answer told from one state still hold in another?

A right action of a task changes an order or a reservation. The answer to a request is told by the tools in the state of
the cache and in the state of the probe, and the pair is valid exactly where the two are equal.

Pairs come by twos that share the cached answer: one to be reused, one not. Cached before the change, the answer still
holds after another call that touches it in nothing (``unchanged``), and does not after the change (``changed``). Cached
after the change, it still holds after another call (``unchanged``), and is wrong for another order, reservation or user
(``other``) whose state is as one before a change. So neither the cached answer nor the probe's own state tells the
label, and as many twosomes are built on a change as on another record.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from cachemend.datasets.pair import Pair
from cachemend.datasets.pair_build import SEED, Built
from cachemend.datasets.seeded import below, draw, shuffled
from cachemend.datasets.tau_changes import AIRLINE, RETAIL, execute
from cachemend.datasets.tau_data import load_airline, load_retail, load_tasks
from cachemend.datasets.tau_request import Change
from cachemend.datasets.tau_states import Side, User, context_of, later, other_subject
from cachemend.repair_core.errors import InputError

N = 624
SOURCE, FAMILY = "tau-bench", "tool-state"
INVALID = ("changed", "other")


def build_tau(folder: Path, *, n: int = N, seed: int = SEED) -> Built:
    """Build pairs from ``tau-bench/`` in the data folder.

    Every user with a task that changes something gives one twosome of pairs after another, in turns, until there are
    `n` pairs or none is left; half of them are valid.

    Args:
        folder: the data folder.
        n: pairs wanted.
        seed: of every draw.

    Returns:
        At most `n` pairs, with counts of what was turned down on the way: refused calls of the tasks, and questions
        that give no twosome, by reason.

    Raises:
        InputError: files that are absent or of another form, or `n` below 1.
    """
    if n < 1:
        raise InputError(f"n is {n}; give at least 1 pair")
    rejects: Counter[str] = Counter()
    users = sorted(_users(folder, seed, rejects), key=lambda user: draw(seed, "user", user.cluster))
    turns = [{rule: _twosomes(user, rule, seed, rejects) for rule in INVALID} for user in users]
    pairs: list[Pair] = []
    seen: set[tuple[str, ...]] = set()
    made = dict.fromkeys(INVALID, 0)
    while turns and len(pairs) < n:
        left = []
        for turn in turns:
            # The kind that is behind comes first: the probes' own states then say nothing of the label.
            rule, twosome = next(
                ((rule, pair) for rule in sorted(INVALID, key=made.__getitem__) if (pair := next(turn[rule], None))),
                ("", ()),
            )
            texts = set(map(_texts, twosome))
            if texts & seen:
                rejects["pair that came up before"] += len(twosome)
            elif twosome:
                seen |= texts
                made[rule] += 1
                pairs.extend(twosome)
            if twosome:
                left.append(turn)
        turns = left
    return Built(tuple(pairs[:n]), dict(rejects))


def _users(folder: Path, seed: int, rejects: Counter[str]) -> Iterator[User]:
    for domain, state in ((RETAIL, load_retail(folder)), (AIRLINE, load_airline(folder))):
        changes: dict[str, list[Change]] = {}
        tasks = load_tasks(folder, domain.name)
        for task in tasks:
            executed = execute(domain, state, task)
            changes.setdefault(task.user_id, []).extend(executed.changes)
            rejects["call of a task that the tools refuse"] += executed.refused
        strangers = shuffled(set(state.users) - set(changes), seed, "stranger", domain.name)
        for user_id in sorted(changes):
            if changes[user_id]:
                stranger = strangers.pop() if strangers else None
                yield User(domain, user_id, tuple(changes[user_id]), stranger)


def _twosomes(user: User, rule: str, seed: int, rejects: Counter[str]) -> Iterator[tuple[Pair, Pair]]:
    """The user's twosomes of a valid pair and one that is invalid by `rule`, in a drawn order."""
    cases = [
        (change, request)
        for change in user.changes
        for request in (
            user.domain.preview_of(change),
            *user.domain.requests(user.user_id, change.subject),
            *(user.domain.requests(user.user_id, user.user_id) if change.subject != user.user_id else ()),
        )
    ]
    for index in sorted(range(len(cases)), key=lambda i: draw(seed, user.cluster, rule, i)):
        change, request = cases[index]
        if request.answer(change.before) == request.answer(change.after):
            rejects["question whose answer the change leaves as it was"] += 1
            continue
        labels = (seed, user.cluster, rule, index)
        late = rule == "other"
        cached = Side(request, change.after if late else change.before)
        against = other_subject(user, change, cached, *labels) if late else Side(request, change.after)
        if against is None:
            rejects["cached answer without another record to ask about"] += 1
            continue
        after = later(user, cached, *labels, "kept")
        if after is cached:
            rejects["cached answer that every later call changes"] += 1
            continue
        kept = _pair(user, cached, after, "unchanged", *labels)
        gone = _pair(user, cached, later(user, against, *labels, "gone"), rule, *labels)
        if (kept.label, gone.label) == (1, 0):
            yield kept, gone
        else:
            rejects["other record with an equal answer"] += 1


def _pair(user: User, cached: Side, probe: Side, rule: str, *labels: str | int) -> Pair:
    """A pair whose label is whether the tools answer the probe in its state as they answered the cached request."""
    wordings = len(cached.request.wordings)
    said = below(wordings, *labels, "cached wording")
    # As often in the same words as in others, whatever the label.
    asked = said if below(2, *labels, rule, "same words") else below(wordings, *labels, rule, "wording")
    response, right = cached.request.answer(cached.state), probe.request.answer(probe.state)
    identity = hashlib.sha256("\x1f".join(map(str, (*labels, rule))).encode("utf-8")).hexdigest()
    return Pair(
        pair_id=f"{SOURCE}-{identity[:16]}",
        pool="reconstruction",
        source=SOURCE,
        family=FAMILY,
        cluster=user.cluster,
        rule=rule,
        label=int(response == right),
        q_cache=cached.request.wordings[said],
        r_cache=response,
        context_cache=context_of(user, cached),
        q_probe=probe.request.wordings[asked],
        context_probe=context_of(user, probe),
    )


def _texts(pair: Pair) -> tuple[str, ...]:
    return (pair.q_cache, pair.r_cache, pair.context_cache, pair.q_probe, pair.context_probe)
