"""The named Erasing-NIAH rosters: wording, lengths, depths, seeds and score rule of each, in one place.

Wording and score rule of a roster were chosen on the "embedded-dev" seeds, never on reported ones.
"""

from dataclasses import replace

from cachemend.datasets.niah_questions import QUESTION_ROSTERS
from cachemend.datasets.niah_spec import DepthPlan, NiahPrompt, NiahRoster

PAPER_PROMPT = NiahPrompt(
    instruction="Read the text below. A question about it follows.",
    facts=("The access code for {key} is {value}.", "The access code for {key} is {value}."),
    question=(
        "What are the access codes for {key} mentioned in the text? "
        "Reply only with the numbers, in the order in which they appear, separated by commas."
    ),
)

# A model of 135M parameters loses the thread of a chat; in plain text it goes on from the beginning of an answer.
# With a colon after "are" it repeats headings instead of answering, stale or not, and the score measures that.
EMBEDDED_PROMPT = NiahPrompt(
    instruction="",
    facts=("The access code for {key} is {value}.", "The access code for {key} is {value}."),
    question="Access codes for {key}?",
    answer_prefill="The access codes for {key} are",
    rendering="plain",
    plain_closing="\n",
)

PAPER_96 = NiahRoster(
    name="paper-96",
    lengths=(1024, 2048, 4096, 8192, 16384, 32768),
    cases_per_length=16,
    first_seed=1_000_000,
    depths=DepthPlan(first=(0.05, 0.45), second=(0.55, 0.95)),
    prompt=PAPER_PROMPT,
    score_rule="niah-list-v1",
)

EMBEDDED = NiahRoster(
    name="embedded",
    lengths=(300, 600, 900),
    cases_per_length=32,
    control_per_length=8,
    first_seed=2_000_000,
    # Near facts: the second is computed with the first in view, which is what a deletion leaves behind.
    depths=DepthPlan(first=(0.06, 0.2), second=(0.22, 0.32)),
    prompt=EMBEDDED_PROMPT,
    score_rule="niah-first-value-v1",
)

EMBEDDED_DEV = replace(EMBEDDED, name="embedded-dev", cases_per_length=8, control_per_length=0, first_seed=3_000_000)

ROSTERS: dict[str, NiahRoster] = {
    roster.name: roster for roster in (PAPER_96, EMBEDDED, EMBEDDED_DEV, *QUESTION_ROSTERS)
}
