"""New requests that come after talk about something else: the state of another service beside the request's own.

Without it, equal context texts alone would tell most valid pairs of this source. The added state leaves the label as
it is, since no answer rests on another service's state.
"""

from collections.abc import Callable, Collection, Sequence

from cachemend.datasets.pairs_sgd_turns import AnswerTurn
from cachemend.datasets.seeded import below

_NOT_STATE = ("offered.", "requested: ")


def contexts_of_requests(
    turns: Sequence[AnswerTurn], taken: Collection[str], *, seed: int
) -> Callable[[AnswerTurn], str]:
    """Return what gives the context of a turn as a new request: for half of the turns, with an earlier state.

    The same turn always gets the same context, in valid and invalid pairs alike. The earlier state is that of a turn
    of another dialogue and of a service of another kind, as lines ``earlier.key: value``.

    Args:
        turns: turns to take earlier states from.
        taken: dialogues that pairs are made of; nothing is taken from them, as it would tie clusters together.
        seed: the sampling seed.
    """
    donors = [turn for turn in turns if turn.dialogue not in taken]
    by_kind = {kind: [turn for turn in donors if _kind(turn) != kind] for kind in {_kind(turn) for turn in turns}}

    def context(turn: AnswerTurn) -> str:
        others = by_kind.get(_kind(turn), donors)
        if not others or below(2, seed, "sgd", "earlier", turn.name) == 0:
            return turn.context
        donor = others[below(len(others), seed, "sgd", "earlier state", turn.name)]
        state = [line for line in donor.context.split("\n") if not line.startswith(_NOT_STATE)]
        return "\n".join([*(f"earlier.{line}" for line in state), turn.context])

    return context


def _kind(turn: AnswerTurn) -> str:
    """A service's name without its number: "Hotels" of "Hotels_1"."""
    return turn.service.partition("_")[0]
