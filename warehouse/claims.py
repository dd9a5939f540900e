"""The paper's orderings that one model on Erasing-NIAH can confirm or contradict, fixed before they are measured.

Source: "Budgeted KV-Cache Repair for Evolving Contexts", sections 9.1 and 9.2, Tables 2-6, 12 and 13. How often the
paper's own five models show an ordering is counted from its published figures.
"""

from typing import Literal, NamedTuple

from cachemend.warehouse.published import published

Relation = Literal["above", "not below"]

_BUDGETS = (2.0, 5.0)


class Claim(NamedTuple):
    """`subject` answers more cases than `other` at a budget ("above"), or is not shown to answer fewer.

    Attributes:
        budget: percent of the suffix, of both; of the subject alone where the other is a reference.
        place: where the paper says so.
    """

    subject: str
    other: str
    budget: float
    relation: Relation
    place: str


class PaperCount(NamedTuple):
    """On how many of the paper's models the subject's exact match is above, equal to or below the other's."""

    above: int
    equal: int
    below: int

    @property
    def models(self) -> int:
        """How many models the paper compares."""
        return self.above + self.equal + self.below


def _above(subject: str, other: str, place: str) -> list[Claim]:
    return [Claim(subject, other, budget, "above", place) for budget in _BUDGETS]


CLAIMS: tuple[Claim, ...] = (
    *_above("sur", "dense-tokens", "9.1, Table 12"),
    *_above("sur", "max-relevance-window", "9.1, Table 12"),
    *_above("max-relevance-window", "dense-tokens", "9.1, Table 12"),
    *_above("sur", "random-units", "9.1, Table 12"),
    *_above("sur", "bm25-units", "9.2, Table 12"),
    *_above("sur", "prophetkv", "9.2, Table 13"),
    *_above("sur", "infoflow", "9.2, Table 13"),
    *_above("sur", "cache-craft", "9.2, Table 13"),
    *_above("sur", "cacheblend", "9.2, Table 13"),
    *_above("sur", "a3", "8.1, Tables 2-6"),
    *_above("sur", "legolink", "8.1, Tables 2-6"),
    *_above("sur", "cachetune", "8.1, Tables 2-6"),
    *_above("sur", "speccache", "8.1, Tables 2-6"),
    *_above("sur", "clean-state-oracle", "8.1, Tables 2-6"),
    # Only at 5 %: at 2 % four of the paper's five models answer fewer cases than Re-prefill.
    Claim("sur", "re-prefill", 5.0, "not below", "8.1, Tables 2-6"),
)


def paper_count(claim: Claim) -> PaperCount:
    """Count the paper's models by the sign of the claim's difference."""
    values = {(row.model, row.allocator, row.budget): row.value for row in published()}
    signs = []
    for model in dict.fromkeys(row.model for row in published()):
        other = values.get((model, claim.other, claim.budget), values.get((model, claim.other, None)))
        assert other is not None, f"{claim.other} is not published for {model}"
        signs.append(values[model, claim.subject, claim.budget] - other)
    return PaperCount(sum(s > 0 for s in signs), sum(s == 0 for s in signs), sum(s < 0 for s in signs))
