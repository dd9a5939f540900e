"""What a roster of Erasing-NIAH cases is: every choice that decides a case, as plain fields."""

from dataclasses import dataclass

from cachemend.datasets.niah_score import SCORE_RULES
from cachemend.repair_core.errors import InputError, nearest

RENDERINGS = ("chat", "plain")


def _check_range(name: str, low: float, high: float) -> None:
    if not 0 <= low < high <= 1:
        raise InputError(f"{name} ({low}, {high}) is not a range inside 0 to 1")


@dataclass(frozen=True, kw_only=True)
class DepthPlan:
    """Where the two facts stand, as fractions of the filler sentences; a case draws uniformly from a range.

    Attributes:
        first: range of the first fact.
        second: range of the second fact; begins after `first` ends.
    """

    first: tuple[float, float]
    second: tuple[float, float]

    def __post_init__(self) -> None:
        _check_range("depth range first", *self.first)
        _check_range("depth range second", *self.second)
        if self.second[0] < self.first[1]:
            raise InputError(f"depth range second {self.second} begins before the first fact's range ends")


@dataclass(frozen=True, kw_only=True)
class NiahPrompt:
    """The wording of a case. Templates may hold ``{key}``; a fact also holds ``{value}``.

    Attributes:
        instruction: paragraph before the document; part of the cached context. May be empty.
        facts: wording of the first and of the second fact, one whole sentence each.
        question: the bare query text, after the document; its tokens are the relevance ids.
        answer_prefill: beginning of the answer, appended after the generation prompt; may be empty.
        rendering: "chat" for the tokenizer's chat template (plain where it has none), "plain" to ignore it.
        plain_closing: what follows the question in plain rendering, before the prefill.
        separator: what stands between the values of the canonical answer.
    """

    instruction: str
    facts: tuple[str, str]
    question: str
    answer_prefill: str = ""
    rendering: str = "chat"
    plain_closing: str = "\n\nAnswer:"
    separator: str = ", "

    def __post_init__(self) -> None:
        if self.rendering not in RENDERINGS:
            raise InputError(f"rendering {self.rendering!r} is unknown; {nearest(self.rendering, RENDERINGS)}")
        for fact in self.facts:
            if "{key}" not in fact or fact.count("{value}") != 1:
                raise InputError(f"fact {fact!r} needs {{key}} and one {{value}}")
        if "{key}" not in self.question:
            raise InputError(f"question {self.question!r} needs {{key}}")


@dataclass(frozen=True, kw_only=True)
class NiahRoster:
    """A named list of cases to build (paper section 7.5).

    Attributes:
        name: the roster's name; part of every case id.
        lengths: nominal lengths of the edited context in tokens of the model under test, increasing.
        cases_per_length: first-deleted cases per length: the needed fact lies downstream of the deletion.
        control_per_length: second-deleted cases per length: nothing downstream needs repair; reported apart.
        first_seed: seeds run from here upward; rosters that must be disjoint begin far apart.
        value_digits: digits of a value.
        depths: where the facts stand.
        prompt: the wording.
        score_rule: a name from `niah_score.SCORE_RULES`.
        max_new_tokens: greedy tokens to generate.
    """

    name: str
    lengths: tuple[int, ...]
    cases_per_length: int
    control_per_length: int = 0
    first_seed: int
    value_digits: int = 6
    depths: DepthPlan
    prompt: NiahPrompt
    score_rule: str
    max_new_tokens: int = 32

    def __post_init__(self) -> None:
        if not self.lengths or list(self.lengths) != sorted(set(self.lengths)) or self.lengths[0] < 1:
            raise InputError(f"lengths {self.lengths} must be increasing positive token counts")
        if self.cases_per_length < 1 or self.control_per_length < 0:
            raise InputError(
                f"cases per length {self.cases_per_length} and control per length {self.control_per_length} "
                "must be at least 1 and 0"
            )
        if self.first_seed < 0 or self.max_new_tokens < 1:
            raise InputError("first_seed must be at least 0 and max_new_tokens at least 1")
        if not 2 <= self.value_digits <= 18:
            raise InputError(f"value_digits {self.value_digits} is outside 2 to 18")
        if self.score_rule not in SCORE_RULES:
            raise InputError(f"score rule {self.score_rule!r} is unknown; {nearest(self.score_rule, SCORE_RULES)}")

    @property
    def decoding(self) -> str:
        """The decoding settings as one string: part of the identity of every record."""
        return f"greedy-{self.max_new_tokens}"
