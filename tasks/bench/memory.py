"""Peak memory of the attention signals above the model and the caches, by context length."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from cachemend.datasets.niah import build_niah
from cachemend.datasets.niah_rosters import EMBEDDED_DEV
from cachemend.repair_core import LoadedModel, RepairContext
from cachemend.repair_core.caches import read_rows
from cachemend.tasks.bench.peak import peak_bytes
from cachemend.tasks.bench.target import Target

LENGTHS = (2048, 4096, 8000)


def bench_memory(loaded: LoadedModel) -> list[Target]:
    """Print the peak at each length, its slope, and how far it is from a line through zero growth."""
    print("\nPeak memory above model and caches, all attention signals of one case")
    lengths, peaks = [], []
    for length in LENGTHS:
        case = build_niah(loaded.tokenizer, replace(EMBEDDED_DEV, lengths=(length,), cases_per_length=1)).cases[0]
        context = RepairContext(
            loaded.model, loaded.tokenizer, case.deletion, case.query_text, query_ids=case.relevance_ids
        )
        cache = sum(keys.nbytes + values.nbytes for keys, values in read_rows(context.shifted))
        signals: dict[str, Callable[[], object]] = {
            "query attention": lambda: context.query_attention,  # noqa: B023
            "dirty replay": lambda: context.deleted_mass,  # noqa: B023
            "shallow prefill": lambda: context.shallow,  # noqa: B023
            "shallow query": lambda: context.shallow_query_attention,  # noqa: B023
        }
        found = {name: peak_bytes(work) or 0 for name, work in signals.items()}
        lengths.append(case.n_tokens)
        peaks.append(max(found.values()))
        parts = ", ".join(f"{name} {peak / 2**20:.0f}" for name, peak in found.items())
        print(f"  N={case.n_tokens:5}  peak {peaks[-1] / 2**20:7.1f} MiB  (one cache {cache / 2**20:.0f})  {parts}")
    slopes = np.diff(peaks) / np.diff(lengths)
    slope = (peaks[-1] - peaks[0]) / (lengths[-1] - lengths[0])
    print(f"  slope {slope / 2**10:.1f} KiB per token; between lengths {', '.join(f'{s / 2**10:.1f}' for s in slopes)}")
    exponent = float(np.polyfit(np.log(lengths), np.log(peaks), 1)[0])
    return [Target("exponent of N in the peak (1 is linear, 2 quadratic)", exponent, at_most=1.15)]
