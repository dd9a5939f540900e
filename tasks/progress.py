"""How far a run is: a bar on a terminal, a line now and then elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

_LINE_SECONDS = 15.0


class Advance(Protocol):
    """Call it with the number of records that were just written."""

    def __call__(self, records: int) -> None: ...


class _Rate(TextColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:.1f} records/s" if speed else "", style="progress.data.speed")


@contextmanager
def progress(total: int, what: str) -> Iterator[Advance]:
    """Show progress towards `total` records, with rate and time left, on standard error."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines(total, what)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), _Rate(""), TimeRemainingColumn())
    with Progress(*columns, console=console, speed_estimate_period=300) as bar:
        task = bar.add_task(what, total=total)
        yield lambda records: bar.advance(task, records)


class _Lines:
    """A plain line at most every quarter of a minute, and one at the end."""

    def __init__(self, total: int, what: str) -> None:
        self._total, self._what, self._done = total, what, 0
        self._start = self._told = time.monotonic()

    def __call__(self, records: int) -> None:
        self._done += records
        now = time.monotonic()
        if now - self._told < _LINE_SECONDS and self._done < self._total:
            return
        self._told = now
        rate = self._done / max(now - self._start, 1e-9)
        left = (self._total - self._done) / rate
        told = f"{self._what}: {self._done}/{self._total} records, {rate:.1f} records/s, {left:.0f} s left"
        print(told, file=sys.stderr, flush=True)
