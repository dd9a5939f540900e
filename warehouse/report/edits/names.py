"""Names, order and looks of policies as the page shows them.

Named here, not read from the policies, because importing those loads torch.
"""

from typing import NamedTuple

from cachemend.warehouse.report.palette import Mark, spare_mark

SUBJECT = "edit-local"
"""The policy that the finding and the contrasts are about."""
REFERENCES = ("stale", "span", "clean")
DIAGNOSTICS = ("causal-oracle", "causal-oracle-screened", "carrier-window", "span-to-carrier")

_LABELS = {
    "stale": "Stale, no repair",
    "span": "Span only",
    "clean": "Re-prefill, clean",
    "edit-local": "Edit-local",
    "edit-local-boundary": "Edit-local to block end",
    "structural": "Structural",
    "attention": "Attention",
    "cacheblend": "CacheBlend",
    "random": "Random",
    "sur": "SUR",
    "edit-local-sur": "Edit-local + SUR",
    "edit-to-carrier": "Edit to carrier, text rule",
    "two-stage": "Two-stage attention",
    "causal-oracle": "Causal oracle",
    "causal-oracle-screened": "Causal oracle, screened",
    "carrier-window": "Carrier window",
    "span-to-carrier": "Span to carrier",
    "table": "Decision table",
    "re-prefill": "Re-prefill",
}
_MARKS = {
    "edit-local": Mark("#2f7ed8", "circle"),
    "edit-local-boundary": Mark("#1d9aaa", "pentagon"),
    "structural": Mark("#b98a1f", "hexagon"),
    "attention": Mark("#e07b39", "square"),
    "cacheblend": Mark("#6b7fd7", "cross"),
    "random": Mark("#8b929c", "x"),
    "sur": Mark("#2a9d74", "diamond"),
    "edit-local-sur": Mark("#7a9a35", "star-diamond"),
    "edit-to-carrier": Mark("#c2609f", "triangle-down"),
    "two-stage": Mark("#d1495b", "star"),
    "causal-oracle": Mark("#8b929c", "circle-open", "dot"),
    "causal-oracle-screened": Mark("#8b929c", "circle-open", "dot"),
    "carrier-window": Mark("#a06ad1", "triangle-up", "dot"),
    "span-to-carrier": Mark("#a1714f", "bowtie", "dot"),
}
_RANK = {name: rank for rank, name in enumerate(_LABELS)}


class PolicyArm(NamedTuple):
    """A policy at a K (None for references and rules with their own length), by an operator."""

    policy: str
    k: int | None
    operator: str = "recompute"

    @property
    def label(self) -> str:
        """Readable name, e.g. ``Edit-local at K = 32``, with spaces that do not wrap."""
        name = policy_label(self.policy) if self.k is None else f"{policy_label(self.policy)} at {k_label(self.k)}"
        return f"{name}, transplanted" if self.operator == "transplant" else name

    @property
    def is_reference(self) -> bool:
        """Whether the arm is stale, span only or clean."""
        return self.policy in REFERENCES

    @property
    def order(self) -> tuple[int, str, int, str]:
        """A sort key: references, then policies as listed, then unknown ones by name."""
        return *policy_order(self.policy), -1 if self.k is None else self.k, self.operator


def policy_label(name: str) -> str:
    """Return the readable name; a name not known here stands for itself."""
    return _LABELS.get(name, name)


def policy_order(name: str) -> tuple[int, str]:
    """Return a sort key."""
    return _RANK.get(name, len(_RANK)), name


def policy_mark(name: str) -> Mark:
    """Return how a policy is drawn; one not known here takes a spare mark."""
    return _MARKS.get(name) or spare_mark(len(name))


def k_label(k: int) -> str:
    """Return ``K = 32`` without a place to wrap."""
    return f"K\u00a0=\u00a0{k}"
