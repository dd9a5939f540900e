"""Whether one side of a pair alone tells the label: a probe that sees the new request only, or the cached answer only.

Whether an answer may be reused is a matter of both sides. A probe that does well on one has found a trace of how the
pairs were made, and figures on that source say less about routing than they seem to.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedGroupKFold

from cachemend.datasets.pair import Pair

SIDES = ("request", "response")
TARGET = 0.60
FOLDS = 5


class Artifact(NamedTuple):
    """What a one-sided probe reached on the pairs of one source.

    Attributes:
        source: the source.
        side: "request" (the new request and its context) or "response" (the cached response).
        n: the number of pairs.
        auroc: the mean over the folds of the area under the ROC curve of "valid"; None where a fold cannot be made
            of whole clusters with both labels.
        within_target: the area is at most 0.60; None where there is none.
    """

    source: str
    side: str
    n: int
    auroc: float | None
    within_target: bool | None


def artifacts(pairs: Sequence[Pair]) -> list[Artifact]:
    """Probe either side of the pairs of every source, in the order of the sources' names."""
    found = []
    for source in sorted({pair.source for pair in pairs}):
        chosen = [pair for pair in pairs if pair.source == source]
        for side in SIDES:
            auroc = probe_auroc(chosen, side)
            found.append(Artifact(source, side, len(chosen), auroc, None if auroc is None else auroc <= TARGET))
    return found


def probe_auroc(pairs: Sequence[Pair], side: str) -> float | None:
    """Return how well hashed words of one side alone rank the valid pairs above the invalid ones.

    Logistic regression on one- and two-word hashes, five folds of whole clusters, both labels weighted alike; the
    mean of the folds' areas.

    Args:
        pairs: of one source.
        side: one of `SIDES`.

    Returns:
        The area, in [0, 1]; None where there are fewer than five clusters or a fold has one label only.
    """
    if side not in SIDES:
        raise ValueError(f"side {side!r} is not one of {', '.join(SIDES)}")
    texts = [f"{pair.q_probe}\n{pair.context_probe}" if side == "request" else pair.r_cache for pair in pairs]
    valid = np.array([pair.label for pair in pairs])
    clusters = np.unique([pair.cluster for pair in pairs], return_inverse=True)[1]
    if len(set(clusters.tolist())) < FOLDS or min(valid.sum(), len(valid) - valid.sum()) < FOLDS:
        return None
    words = HashingVectorizer(n_features=2**16, ngram_range=(1, 2), alternate_sign=False).transform(texts)
    areas = []
    for seen, held in StratifiedGroupKFold(n_splits=FOLDS).split(words, valid, clusters):
        if len(set(valid[held].tolist())) < 2 or len(set(valid[seen].tolist())) < 2:
            return None
        probe = LogisticRegression(class_weight="balanced", max_iter=1000).fit(words[seen], valid[seen])
        areas.append(float(roc_auc_score(valid[held], probe.decision_function(words[held]))))
    return float(np.mean(areas))
