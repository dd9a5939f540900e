"""Selection beside the packed refresh it directs, on natural text."""

from dataclasses import replace
from functools import partial

from cachemend.datasets.niah import build_niah
from cachemend.datasets.niah_rosters import EMBEDDED_DEV
from cachemend.repair_core import LoadedModel, RepairContext, Tokens, allocate, prefill, refresh
from cachemend.tasks.bench.sampling import interleaved
from cachemend.tasks.bench.target import Target


def bench_selection(loaded: LoadedModel, length: int = 2048, count: int = 64, repeats: int = 15) -> list[Target]:
    """Print SUR's selection time (units, relevance, allocation) over a packed refresh, and return the target."""
    roster = replace(EMBEDDED_DEV, lengths=(length,), cases_per_length=1)
    case = build_niah(loaded.tokenizer, roster).cases[0]
    model = loaded.model
    dirty = prefill(model, case.deletion.original_ids)
    first = RepairContext(model, loaded.tokenizer, case.deletion, case.query_text, dirty=dirty)
    positions = allocate("sur", first, Tokens(count))

    def select() -> None:
        context = RepairContext(model, loaded.tokenizer, case.deletion, case.query_text, dirty=dirty)
        allocate("sur", context, Tokens(count))

    functions = {
        "select": select,
        "refresh": partial(refresh, model, first.shifted, case.deletion.edited_ids, positions),
    }
    times = interleaved(functions, repeats)  # type: ignore[arg-type]
    share = times["select"].median / times["refresh"].median
    print(f"\nSelection, SUR, N={case.n_tokens}, B={count}")
    print(f"  select    {times['select']}\n  refresh   {times['refresh']}")
    return [Target("SUR's selection over a packed refresh", share, at_most=0.15)]
