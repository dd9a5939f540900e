"""Clusters of pairs: a source object each, joined where two of them hold near-duplicate queries, none too large."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from cachemend.datasets.pair import Pair
from cachemend.datasets.seeded import draw

# Shorter queries ("Yes, please book it") are alike everywhere and say nothing of a common origin.
SHORTEST = 6
LARGEST_SHARE = 0.02

_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")
_STOCK = (
    "a about after all also am an and any are as at be been before but by can could d did do does done for from "
    "get give go had has have he hello help her here hi him his how i i'd i'll i'm i've if in into is it it's its "
    "just know let like ll look m may me might more my need no not now of off ok okay on one or other our out "
    "please re s say she should show so some such sure t take tell than thank thanks that that's the their them "
    "then there these they this those to too under up us ve very want was we were what what's when where which "
    "who whom whose why will with would yes you you're your "
)
_FUNCTION_WORDS = frozenset(_STOCK.split())


class Clustered(NamedTuple):
    """Pairs whose cluster is final.

    Attributes:
        pairs: those kept, in their order.
        n_joined: how many source objects were joined into another one's cluster.
        rejects: what was left out, as counts by reason.
    """

    pairs: tuple[Pair, ...]
    n_joined: int
    rejects: dict[str, int]


def content_words(text: str) -> frozenset[str]:
    """The different words of a text in lower case, without function words and the stock words of requests."""
    return frozenset(_WORD.findall(text.casefold().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'"))) - _FUNCTION_WORDS


def near_duplicates(queries: Sequence[str]) -> list[tuple[int, int]]:
    """Find the queries of at least six content words that share four fifths of the content words of both.

    Returns:
        (i, j) with i < j, ascending: the positions of queries whose sets of content words have a Jaccard index of at
        least 0.8.
    """
    words = [content_words(query) for query in queries]
    long = [position for position, found in enumerate(words) if len(found) >= SHORTEST]
    if not long:
        return []
    vocabulary = {word: column for column, word in enumerate(sorted(set().union(*(words[i] for i in long))))}
    rows = np.repeat(np.arange(len(long)), [len(words[i]) for i in long])
    columns = [vocabulary[word] for i in long for word in sorted(words[i])]
    holds = csr_matrix((np.ones(len(columns), dtype=np.int32), (rows, columns)), (len(long), len(vocabulary)))
    common = (holds @ holds.T).tocoo()
    size = np.asarray(holds.sum(axis=1)).ravel()
    # In whole numbers, so that exactly four fifths count on every machine: common / union >= 4 / 5.
    union = size[common.row] + size[common.col] - common.data
    near = (common.row < common.col) & (5 * common.data >= 4 * union)
    return sorted((long[i], long[j]) for i, j in zip(common.row[near], common.col[near], strict=True))


def cluster_pairs(pairs: Sequence[Pair], *, seed: int) -> Clustered:
    """Join the clusters that hold near-duplicate queries, and cut clusters above 2 % of the pairs.

    A joined cluster has the name that comes first among its own. A cluster too large loses pairs in a seeded order
    until none is above 2 % of what is left. Fewer than 50 clusters cannot all be that small; they are not cut.

    Args:
        pairs: with their source objects as clusters.
        seed: the seed of the order.
    """
    names = _joined_names(pairs)
    kept = [replace(pair, cluster=names[pair.cluster]) for pair in pairs]
    chosen = _within_share(kept, seed=seed)
    cut = len(kept) - len(chosen)
    return Clustered(
        pairs=tuple(pair for pair in kept if pair.pair_id in chosen),
        n_joined=len(names) - len(set(names.values())),
        rejects={"in a cluster above 2 % of the pairs": cut} if cut else {},
    )


def _joined_names(pairs: Iterable[Pair]) -> dict[str, str]:
    """Cluster -> the first name of the clusters it is joined with."""
    found = sorted({(query, pair.cluster) for pair in pairs for query in (pair.q_cache, pair.q_probe)})
    clusters = sorted({cluster for _, cluster in found})
    place = {cluster: index for index, cluster in enumerate(clusters)}
    edges = [(place[found[i][1]], place[found[j][1]]) for i, j in near_duplicates([query for query, _ in found])]
    graph = csr_matrix(
        (np.ones(len(edges), dtype=np.int64), ([i for i, _ in edges], [j for _, j in edges])),
        (len(clusters), len(clusters)),
    )
    _, parts = connected_components(graph, directed=False)
    first: dict[int, str] = {}
    return {cluster: first.setdefault(part, cluster) for cluster, part in zip(clusters, parts.tolist(), strict=True)}


def _within_share(pairs: Sequence[Pair], *, seed: int) -> set[str]:
    """The ids of the pairs kept; every cut lowers the share's number of pairs, so it is repeated until none is due."""
    order = sorted(pairs, key=lambda pair: (draw(seed, "cluster share", pair.pair_id), pair.pair_id))
    sizes = Counter(pair.cluster for pair in pairs)
    if len(sizes) * LARGEST_SHARE < 1:
        return {pair.pair_id for pair in pairs}
    while max(sizes.values()) > (cap := max(1, int(LARGEST_SHARE * sizes.total()))):
        sizes = Counter({cluster: min(size, cap) for cluster, size in sizes.items()})
    kept: set[str] = set()
    room = Counter(sizes)
    for pair in order:
        if room[pair.cluster] > 0:
            room[pair.cluster] -= 1
            kept.add(pair.pair_id)
    return kept
