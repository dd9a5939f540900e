"""Names, order and looks of methods, settings and signals as the page shows them."""

import re

from cachemend.warehouse.report.palette import Mark, spare_mark
from cachemend.warehouse.report.routing.analysis import Arm
from cachemend.warehouse.report.routing.rows import ROUTER

EXACT, RIVAL = "exact-match", "similarity-verifier"

_METHODS = {
    ROUTER: "SafeCache",
    EXACT: "Exact match",
    RIVAL: "Similarity + verifier",
    "gptcache": "GPTCache",
    "vcache": "vCache",
    "cache-me": "Cache-Me",
    "contextcache": "ContextCache",
    "conditional-ppl": "Conditional-PPL",
    "groundedcache": "GroundedCache",
    "no-cache": "No cache",
}
_MARKS = {
    ROUTER: Mark("#2f7ed8", "circle"),
    EXACT: Mark("#1d9aaa", "pentagon"),
    RIVAL: Mark("#e07b39", "square"),
    "gptcache": Mark("#8b929c", "x"),
    "vcache": Mark("#a06ad1", "triangle-up"),
    "cache-me": Mark("#d1495b", "star"),
    "contextcache": Mark("#b98a1f", "hexagon"),
    "conditional-ppl": Mark("#c2609f", "triangle-down"),
    "groundedcache": Mark("#7a9a35", "star-diamond"),
    "no-cache": Mark("#a1714f", "bowtie"),
}
CERTIFIED_MARK = Mark("#2a9d74", "diamond")
_SIGNALS = {
    "similarity": "Plain similarity S, reversed",
    "d_match": "Condition mismatch D_match",
    "u_match": "Matching uncertainty U_match",
    "h": "Conflict H",
    "h_rule": "Conflict between conditions, H_rule",
    "h_ctx": "Conflict in the raw inputs, H_ctx",
    "h_own": "Guards beyond the paper's, H_own",
    "d": "Routing mismatch D",
    "u": "Routing uncertainty U",
}
_POOLS = {
    "seed": "seed set",
    "reconstruction": "reconstruction of the paper's pairs",
    "hard": "hard arm",
    "log": "pairs of a log",
    "stress": "adversarial stress set",
}
_SYMBOLS = {"alpha": "α", "tau": "τ", "B": "B"}
_PARAMETER = re.compile(r"\b(alpha|tau|B)=(\S+)")
_BEFORE_PARAMETER = re.compile(r" (?=[ατB]\u00a0=)")
_METHOD_RANK = {name: rank for rank, name in enumerate(_METHODS)}
_SIGNAL_RANK = {name: rank for rank, name in enumerate(_SIGNALS)}


def method_label(name: str) -> str:
    """Return the readable name; a name not known here stands for itself."""
    return _METHODS.get(name, name)


def setting_label(setting: str) -> str:
    """Return a setting as ``α = 0, B = 0.16``, with spaces inside its parts that do not wrap."""
    text = _PARAMETER.sub(lambda found: f"{_SYMBOLS[found[1]]}\u00a0=\u00a0{found[2]}", setting)
    return _BEFORE_PARAMETER.sub(", ", text)


def arm_label(arm: Arm) -> str:
    """Return a method with its setting."""
    return f"{method_label(arm.method)}, {setting_label(arm.setting)}"


def arm_order(arm: Arm) -> tuple[int, str, str]:
    """Return a sort key: methods as listed, then unknown ones by name; settings by their text."""
    return _METHOD_RANK.get(arm.method, len(_METHOD_RANK)), arm.method, arm.setting


def method_mark(name: str) -> Mark:
    """Return how a method is drawn; one not known here takes a spare mark."""
    return _MARKS.get(name) or spare_mark(len(name))


def signal_label(name: str) -> str:
    """Return the readable name of a signal."""
    return _SIGNALS.get(name, name)


def signal_order(name: str) -> tuple[int, str]:
    """Return a sort key."""
    return _SIGNAL_RANK.get(name, len(_SIGNAL_RANK)), name


def pool_label(name: str) -> str:
    """Return the readable name of a pool."""
    return _POOLS.get(name, name)


def ablation_label(name: str) -> str:
    """Return ``Full router``, or what is left out."""
    return "Full router" if name == "full" else f"Without {name}"
