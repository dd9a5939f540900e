"""Attention backends against FP64 and the paper's Tables 18 and 19 on a GPU: `python -m cachemend.tasks.gpu_check`.

Needs torch, transformers, triton and numpy only. Random BF16 weights of the shape of Qwen3-8B; nothing is downloaded.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

from cachemend.repair_core.errors import InputError
from cachemend.repair_core.executors import EXPERIMENTAL
from cachemend.repair_core.executors.backends import ATTENTIONS
from cachemend.repair_core.machine import device_name
from cachemend.repair_core.random_models import build_random
from cachemend.repair_core.whole_file import write_whole
from cachemend.tasks.execution import attention_timing, refresh_timing
from cachemend.tasks.execution.attention_timing import AttentionSetup, time_attention
from cachemend.tasks.execution.backends import Operands, heads_of
from cachemend.tasks.execution.correctness import Case, check_backends
from cachemend.tasks.execution.lines import COMPARED, attention_lines, refresh_lines
from cachemend.tasks.execution.protocol import ATTENTION, REFRESH, Protocol
from cachemend.tasks.execution.refresh_timing import RefreshSetup, time_refresh
from cachemend.tasks.execution.replays import Context, check_replays
from cachemend.tasks.execution.targets import judge
from cachemend.tasks.execution.text_table import tables

DONE, WRONG, NO_GPU = 0, 1, 2

ODD = (
    Case(heads=(9, 3, 64), rows=1, length=65, sliced=True, spread=0.25),
    Case(heads=(9, 3, 64), rows=33, length=127, batch=2, window=40, sliced=True, spread=0.25),
    Case(heads=(6, 2, 96), rows=15, length=127, batch=2, sliced=True, spread=0.25),
    Case(heads=(6, 2, 96), rows=33, length=65, window=16, spread=0.25),
)
"""No multiples of the kernels' tiles of 16 rows and 64 keys, three query heads to one of keys, views of a buffer."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is run.

    Attributes:
        shape, dtype, device: the model.
        lengths, rows, intervals: N, B and R.
        refresh, attention: how often each is timed.
        cases: heads, rows and keys on which every backend is compared with FP64.
        dtypes: precisions of that comparison.
        contexts: on which the captured executors take turns, in several buckets.
    """

    shape: str
    dtype: torch.dtype
    device: torch.device
    lengths: tuple[int, ...]
    rows: int
    intervals: tuple[int, ...]
    refresh: Protocol
    attention: Protocol
    cases: tuple[Case, ...]
    dtypes: tuple[torch.dtype, ...]
    contexts: tuple[Context, ...]


def gpu_plan() -> Plan:
    """The paper's protocol at the shape of its model."""
    return Plan(
        shape="qwen3-8b",
        dtype=torch.bfloat16,
        device=torch.device("cuda"),
        lengths=(2048, 8192),
        rows=64,
        intervals=(1, 4, 16),
        refresh=REFRESH,
        attention=ATTENTION,
        cases=(
            Case(heads=(32, 8, 128), rows=64, length=2048, intervals=16),
            Case(heads=(32, 8, 128), rows=64, length=8192, intervals=1),
            Case(heads=(9, 3, 64), rows=48, length=960, intervals=4),
            Case(heads=(4, 4, 64), rows=16, length=192, intervals=1),
            *ODD,
        ),
        dtypes=(torch.bfloat16, torch.float16, torch.float32),
        contexts=(Context(2016, 24, (1, 4)), Context(4064, 56, (1, 4))),
    )


def cpu_plan() -> Plan:
    """The same on a tiny shape without a GPU: shows that this script works, and nothing about speed."""
    once = Protocol(warmups=0, repeats=1)
    return Plan(
        shape="tiny",
        dtype=torch.float32,
        device=torch.device("cpu"),
        lengths=(128,),
        rows=8,
        intervals=(1, 4),
        refresh=once,
        attention=once,
        cases=(Case(heads=(4, 2, 16), rows=8, length=128, intervals=4), *ODD[1:3]),
        dtypes=(torch.float32, torch.bfloat16),
        contexts=(Context(96, 8, (1,)),),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print JSON and text tables.

    Returns:
        0: all correct; 1: something is wrong, or on a GPU refused; 2: no GPU, or not enough memory. A target that is
        missed changes nothing.
    """
    parser = argparse.ArgumentParser(prog="gpu_check", description=__doc__)
    parser.add_argument("--output", type=Path, help="also write the JSON to this file")
    parser.add_argument("--cpu", action="store_true", help="a tiny shape on the CPU; its times say nothing")
    options = parser.parse_args(arguments)
    if not options.cpu and not torch.cuda.is_available():
        print(
            "no GPU here: this check needs a CUDA device (--cpu runs a tiny shape to try the script)", file=sys.stderr
        )
        return NO_GPU
    try:
        found = run(cpu_plan() if options.cpu else gpu_plan())
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return NO_GPU
    text = json.dumps(found, indent=1)
    print(text)
    print(tables(found))
    if options.output is not None:
        write_whole(options.output, text.encode())
    return WRONG if found["wrong"] else DONE


def run(plan: Plan) -> dict[str, Any]:
    """Run a plan.

    Returns:
        Plain data: machine and versions, the correctness rows, those of refresh and attention, on a GPU what it should
        reach, and what is wrong.

    Raises:
        InputError: the weights do not fit the device.
    """
    began = time.monotonic()
    checks = check_backends(ATTENTIONS, plan.cases, plan.dtypes, plan.device)
    model = build_random(plan.shape, plan.dtype, plan.device)
    refreshes = RefreshSetup(intervals=plan.intervals, lines=refresh_lines(COMPARED, ATTENTIONS), protocol=plan.refresh)
    alone = AttentionSetup(intervals=plan.intervals, lines=attention_lines(ATTENTIONS), protocol=plan.attention)
    replays = check_replays(model, refresh_lines(tuple(EXPERIMENTAL), ATTENTIONS), plan.contexts)
    refresh: list[dict[str, Any]] = []
    attention: list[dict[str, Any]] = []
    for length in plan.lengths:
        operands = Operands.random(heads_of(model), plan.rows, length, plan.dtype, plan.device, 0)
        attention += [{"length": length, **row} for row in time_attention(operands, alone)]
        refresh += [{"length": length, **row} for row in time_refresh(model, length, plan.rows, refreshes)]
    on_gpu = plan.device.type == "cuda"
    # On a GPU everything runs: a backend that is refused there has not been checked.
    allowed = ("ok",) if on_gpu else ("ok", "refused")
    wrong = [row for row in (*checks, *replays, *refresh, *attention) if row["outcome"] not in allowed]
    return {
        "device": device_name(plan.device),
        "note": "" if on_gpu else "a tiny shape on the CPU: times say nothing",
        "shape": plan.shape,
        "weights": "random",
        "dtype": str(plan.dtype).removeprefix("torch."),
        "rows": plan.rows,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "cuda": torch.version.cuda,
        "correctness": checks,
        "replays": replays,
        "refresh": {"timed_stages": refresh_timing.TIMED_STAGES, "lines": refresh},
        "attention": {"timed_stages": attention_timing.TIMED_STAGES, "lines": attention},
        "targets": [judged._asdict() for judged in judge(refresh, attention)] if on_gpu else [],
        "wrong": wrong,
        "seconds": time.monotonic() - began,
    }


if __name__ == "__main__":
    sys.exit(main())
