"""The rosters of the paper's open questions on allocation: four wordings, development and reported seeds of each.

A wording decides where the value stands from the words that the question shares with the fact, and so which part of a
unit a small budget must catch: before the key, after it, between two mentions of it, or inside an ordinary sentence of
the surrounding prose. Every roster has seeds of its own. Wordings and lengths were fixed on development seeds: wordings
that the clean cache answers and the stale one mostly does not, and lengths at which 2 % of the suffix are less than one
unit.
"""

from dataclasses import replace

from cachemend.datasets.niah_spec import DepthPlan, NiahPrompt, NiahRoster

WORDINGS: dict[str, tuple[str, str]] = {
    "before": ("Access code {value} is for {key}.",) * 2,
    "after": ("The access code for {key} is {value}.",) * 2,
    "around": ("For {key} there is the access code {value}, the code of {key}.",) * 2,
    "real": (
        "On market days, the access code for the {key} is {value}, and the keeper locks the side gate again before "
        "the bells have rung.",
        "Most evenings, the access code for the {key} is {value}, and the porter who comes up from the quay hangs up "
        "his wet coat.",
    ),
}
"""The two facts of each wording."""

_QUESTIONS = NiahRoster(
    name="questions",
    lengths=(500, 1000),
    cases_per_length=1,
    first_seed=0,
    depths=DepthPlan(first=(0.06, 0.2), second=(0.22, 0.32)),
    prompt=NiahPrompt(
        instruction="",
        facts=WORDINGS["after"],
        question="Access codes for {key}?",
        answer_prefill="The access codes for {key} are",
        rendering="plain",
        plain_closing="\n",
    ),
    score_rule="niah-first-value-v1",
)
_APART = 10_000
"""Seeds between two wordings; a roster uses 20 for each of its cases."""


def _rosters(stage: str, cases_per_length: int, first_seed: int) -> list[NiahRoster]:
    return [
        replace(
            _QUESTIONS,
            name=f"{stage}-{wording}",
            cases_per_length=cases_per_length,
            first_seed=first_seed + _APART * place,
            prompt=replace(_QUESTIONS.prompt, facts=facts),
        )
        for place, (wording, facts) in enumerate(WORDINGS.items())
    ]


QUESTION_ROSTERS = (*_rosters("questions", 6, 5_000_000), *_rosters("questions-dev", 3, 4_000_000))
