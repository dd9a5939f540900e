"""All arms of a case together against each arm alone, in one process with the model loaded."""

import time
from collections.abc import Sequence

from cachemend.datasets.niah import build_niah
from cachemend.datasets.niah_case import NiahCase
from cachemend.datasets.niah_rosters import EMBEDDED_DEV
from cachemend.repair_core import Arm, LoadedModel, sweep_arms
from cachemend.repair_core.allocators import names
from cachemend.tasks.repair_case import run_case

BUDGETS = (2.0, 5.0, 10.0, 20.0)


def bench_sharing(loaded: LoadedModel, case_index: int = 1) -> float:
    """Print and return the time of all arms one by one over that of all arms together.

    Raises:
        AssertionError: an arm answers differently alone and together (FP32).
    """
    case = build_niah(loaded.tokenizer, EMBEDDED_DEV).cases[case_index]
    arms = sweep_arms(names(), BUDGETS)
    _run(loaded, case, arms[:1])
    together, shared = _run(loaded, case, arms)
    alone, separate = 0.0, []
    for arm in arms:
        seconds, rows = _run(loaded, case, [arm])
        alone += seconds
        separate += rows
    if [row["answer"] for row in separate] != [row["answer"] for row in shared]:
        raise AssertionError("an arm answers differently alone and together")
    print(f"\nSharing, {len(arms)} arms of one case, N={case.n_tokens}, S={case.deletion.suffix_length}")
    print(f"  together  {together:9.2f} s\n  one by one {alone:8.2f} s  (same answers)")
    print(f"together is {alone / together:.2f} times faster")
    return alone / together


def _run(loaded: LoadedModel, case: NiahCase, arms: Sequence[Arm]) -> tuple[float, list[dict]]:
    start = time.perf_counter()
    rows = run_case(
        loaded,
        case,
        arms,
        executor="packed",
        attention="sdpa",
        max_new_tokens=EMBEDDED_DEV.max_new_tokens,
        score_rule=EMBEDDED_DEV.score_rule,
    )
    return time.perf_counter() - start, rows
