"""What a roster of edit cases is: every choice that decides a case, as plain fields."""

from dataclasses import dataclass

from cachemend.datasets.edit_background import SPLITS
from cachemend.datasets.edit_family import CONDITIONS, Family
from cachemend.datasets.edit_prompt import STYLES
from cachemend.datasets.edit_score import FLIP_RULE, MAX_NEW_TOKENS
from cachemend.repair_core.errors import InputError, nearest

LONGEST_SPAN = 6
WINDOW = (0.25, 0.40)
DEPTH = 0.30
# Of several records: every one has background before and after it, in the first and the last tenth too.
SEQUENCE_WINDOW = (0.08, 0.92)
PAIR_BAND = 0.03


def _check_common(split: str, n_tokens: int, families: tuple[Family, ...], style: str, first_seed: int) -> None:
    if split not in SPLITS:
        raise InputError(f"split {split!r} is unknown; {nearest(split, SPLITS)}")
    if style not in STYLES:
        raise InputError(f"style {style!r} is unknown; {nearest(style, STYLES)}")
    if n_tokens < 1 or first_seed < 0:
        raise InputError(f"n_tokens {n_tokens} and first_seed {first_seed} must be at least 1 and 0")
    names = [family.name for family in families]
    if not names or len(set(names)) != len(names):
        raise InputError(f"families {names} must be at least one, each once")


@dataclass(frozen=True, kw_only=True)
class EditRoster:
    """A named list of edit items to build (edit paper, "Pre-specified held-out evaluation").

    An item has one case per condition, and per distance for derived; one of which any case is unusable is dropped
    whole. Which items are retained depends on the model and is decided when it runs. The cohort holds every
    candidate that may be needed, in order. The first `n_candidates` are run; a cell (condition and distance) that
    retains fewer items than wanted runs the next `expand_by`, up to `max_candidates`. No filter is ever loosened.

    Attributes:
        name: the roster's name; part of every case id.
        split: "dev" or "held-out"; decides which background paragraphs may be used.
        n_tokens: length of a context in tokens of the model under test; a context comes as near as paragraphs allow.
        families: the wordings; candidates take turns.
        conditions: which cases an item has, of `edit_family.CONDITIONS`.
        distances: nominal distances of derived cases, increasing from 0; the other conditions have 0 only.
        n_items: retained items wanted of derived edits at distance 0, the headline cell.
        n_others: retained items wanted in every other cell; 0 for as many.
        n_candidates: candidates run at first.
        expand_by: candidates added at a time.
        max_candidates: candidates built.
        first_seed: seeds run from here upward; rosters that must be disjoint begin far apart.
        style: "plain" or "chat".
        background: path of a paragraph file; "" for the embedded paragraphs.
    """

    name: str
    split: str
    n_tokens: int
    families: tuple[Family, ...]
    conditions: tuple[str, ...] = CONDITIONS
    distances: tuple[int, ...] = (0,)
    n_items: int
    n_others: int = 0
    n_candidates: int
    expand_by: int
    max_candidates: int
    first_seed: int
    style: str = "plain"
    background: str = ""

    def __post_init__(self) -> None:
        _check_common(self.split, self.n_tokens, self.families, self.style, self.first_seed)
        if not self.conditions or len(set(self.conditions)) != len(self.conditions):
            raise InputError(f"conditions {self.conditions} must be at least one, each once")
        for condition in self.conditions:
            if condition not in CONDITIONS:
                raise InputError(f"condition {condition!r} is unknown; {nearest(condition, CONDITIONS)}")
            for family in self.families:
                if condition not in family.conditions:
                    raise InputError(f"family {family.name!r} has no wording for condition {condition!r}")
        if not self.distances or self.distances[0] != 0 or list(self.distances) != sorted(set(self.distances)):
            raise InputError(f"distances {self.distances} must increase from 0")
        if self.distances != (0,) and "derived" not in self.conditions:
            raise InputError(f"distances {self.distances} need condition 'derived'")
        if not 0 <= self.n_others <= self.n_items <= self.max_candidates or min(self.n_items, self.expand_by) < 1:
            raise InputError(
                f"n_others {self.n_others}, n_items {self.n_items}, max_candidates {self.max_candidates} must not "
                f"decrease, and n_items and expand_by {self.expand_by} be at least 1"
            )
        if not 1 <= self.n_candidates <= self.max_candidates:
            raise InputError(f"n_candidates {self.n_candidates} must be 1 to max_candidates {self.max_candidates}")

    @property
    def forms(self) -> tuple[tuple[str, int], ...]:
        """Condition and nominal distance of each case of an item, in the order they have in the cohort."""
        near = [(condition, 0) for condition in CONDITIONS if condition in self.conditions]
        return (*near, *(("derived", distance) for distance in self.distances[1:]))

    def wanted(self, condition: str, distance: int) -> int:
        """How many retained items a cell needs; of irrelevant edits, how many candidates."""
        headline = (condition, distance) == ("derived", 0)
        return self.n_items if headline else self.n_others or self.n_items

    @property
    def pools(self) -> tuple[int, ...]:
        """How many candidates have been run after each step of the expansion."""
        sizes = [*range(self.n_candidates, self.max_candidates, self.expand_by), self.max_candidates]
        return tuple(sizes)

    @property
    def score_rule(self) -> str:
        """The name of the rule that decides retention and flips."""
        return FLIP_RULE

    @property
    def max_new_tokens(self) -> int:
        """Greedy tokens to generate."""
        return MAX_NEW_TOKENS

    @property
    def decoding(self) -> str:
        """The decoding settings as one string: part of the identity of every record."""
        return f"greedy-{self.max_new_tokens}"


@dataclass(frozen=True, kw_only=True)
class EditSequenceRoster:
    """A named list of contexts with several records, each of which is edited and asked about.

    Attributes:
        name, split, n_tokens, families, first_seed, style, background: as for `EditRoster`.
        records: how many records a context may hold, increasing.
        cases_per_size: contexts per number of records.
        conditions: the records of a context take turns among these.
    """

    name: str
    split: str
    n_tokens: int
    families: tuple[Family, ...]
    conditions: tuple[str, ...] = ("derived", "direct")
    records: tuple[int, ...] = (2, 4, 10)
    cases_per_size: int
    first_seed: int
    style: str = "plain"
    background: str = ""

    def __post_init__(self) -> None:
        _check_common(self.split, self.n_tokens, self.families, self.style, self.first_seed)
        if not self.conditions or not set(self.conditions) <= {"derived", "direct"}:
            raise InputError(f"conditions {self.conditions} of a sequence must be 'derived', 'direct' or both")
        if not self.records or list(self.records) != sorted(set(self.records)) or self.records[0] < 1:
            raise InputError(f"records {self.records} must be increasing positive counts")
        if self.cases_per_size < 1:
            raise InputError(f"cases_per_size {self.cases_per_size} must be at least 1")

    @property
    def score_rule(self) -> str:
        """The name of the rule that decides flips."""
        return FLIP_RULE

    @property
    def max_new_tokens(self) -> int:
        """Greedy tokens to generate."""
        return MAX_NEW_TOKENS

    @property
    def decoding(self) -> str:
        """The decoding settings as one string: part of the identity of every record."""
        return f"greedy-{self.max_new_tokens}"
