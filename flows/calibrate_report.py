"""What `cachemend calibrate` prints: the parts, the policy in words, and the test part beside plain similarity."""

from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.table import Table

from cachemend.calibration.certified.advice import ALPHAS, advise
from cachemend.calibration.pooled_counts import hit_bounds
from cachemend.calibration.routing import Outcome, Thresholds, outcome
from cachemend.calibration.splits import Split
from cachemend.datasets.pair import Pair
from cachemend.flows.calibrate_choosing import Chosen, played
from cachemend.flows.calibrate_parts import NAMES, Part
from cachemend.flows.tables import wide_console


class Tested(NamedTuple):
    """A policy on the test part: its name in the table and what it came to."""

    name: str
    outcome: Outcome


def on_test(name: str, test: Part, thresholds: Thresholds, budget: float) -> Tested:
    """Replay a policy on the test part."""
    return Tested(name, outcome(played(test, thresholds, budget), test.valid))


def print_split(pairs: Sequence[Pair], split: Split, alpha: float) -> None:
    """Print the sizes of the parts, and what the calibration part can certify at best."""
    clusters = np.array([pair.cluster for pair in pairs])
    sizes = {name: len(np.unique(clusters[rows])) for name, rows in split._asdict().items()}
    told = (f"{NAMES[name]} {len(rows)} pairs of {sizes[name]} clusters" for name, rows in split._asdict().items())
    print(f"parts: {', '.join(told)}")
    print(advise(sizes["cal"], alphas=sorted({alpha, *ALPHAS})).sentence, flush=True)


def print_chosen(chosen: Chosen) -> None:
    """Print the policy in words, or why there is none."""
    if chosen.abstained:
        print(f"policy: everything is regenerated, no cached response is returned: {chosen.abstained}")
        return
    for line in in_words(chosen.thresholds):
        print(line)
    counts = chosen.counts
    print(
        f"chosen by {chosen.selected_by}: {counts.valid} valid and {counts.invalid} invalid responses returned of "
        f"{counts.n} calibration pairs, {counts.calls} verifier calls"
    )


def in_words(limits: Thresholds) -> tuple[str, str]:
    """When a policy reuses and when it verifies, a line each."""
    reuse, verify = "nothing unverified", "nothing"
    if limits.tau_r < inf:
        reuse = (
            f"similarity >= {limits.tau_r:g}, risk <= {limits.delta_r:g}, uncertainty <= {limits.upsilon_r:g}, "
            "no conflict"
        )
    if limits.tau_v < inf:
        verify = (
            f"of the rest, similarity >= {limits.tau_v:g} ({limits.tau_v_conflict:g} with a conflict), "
            f"risk <= {limits.delta_v:g}, uncertainty <= {limits.upsilon_v:g}"
        )
    return f"policy: reuse {reuse}", f"        verify {verify}"


def by_name(limits: Thresholds) -> str:
    """The name of a policy that looks at the similarity alone."""
    reuse = f"similarity >= {limits.tau_r:g}" if limits.tau_r < inf else "similarity, at no threshold"
    return f"{reuse}, verified >= {limits.tau_v:g}" if limits.tau_v < inf else reuse


def print_tested(tested: Sequence[Tested], n_clusters: int) -> None:
    """Print the policies on the test part, the router first and plain similarity second, and what the first gains."""
    n = tested[0].outcome.n
    table = Table(title=f"test part: {n} pairs of {n_clusters} clusters, untouched so far", title_justify="left")
    table.add_column("method")
    for name in ("VCHR", "FH", "invalid of returned", "FH, 95 % upper: Wilson", "exact", "verifier calls"):
        table.add_column(name, justify="right")
    for name, got in tested:
        bounds = hit_bounds(got.invalid, got.accepted)
        table.add_row(
            name,
            _percent(got.vchr),
            _percent(got.fh) if got.accepted else "-",
            f"{got.invalid} of {got.accepted}",
            _percent(bounds.wilson),
            _percent(bounds.exact),
            _percent(got.verifier_rate),
        )
    wide_console().print(table)
    router, plain = tested[0].outcome, tested[1].outcome
    print(
        f"beside similarity alone, the router returns {router.valid - plain.valid:+d} valid and "
        f"{router.invalid - plain.invalid:+d} invalid responses on these {n} pairs"
    )


def print_use(policy: Path, encoder: str) -> None:
    """Print the two lines that load the policy in a service."""
    print("in a service:")
    print(f"  policy = load_policy(Path({str(policy)!r}))")
    print(f"  router = Router(policy, encode, encoder={encoder!r})")


def _percent(rate: float) -> str:
    return f"{100 * rate:.1f} %"
