"""Pairs from XSTest: an answer or a refusal, met again by a prompt that should be answered or should be refused.

The source labels every prompt safe or unsafe and groups safe prompts with their unsafe contrasts by focus. An answer
to a safe prompt holds for that prompt in other words and for no unsafe one; a refusal holds for the unsafe prompt in
other words, and for another unsafe prompt of the group, and for no safe one (paper section 4.1, refusal validity).
Every text of a block of four comes once in a valid and once in an invalid pair.
"""

import csv
import io
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from cachemend.datasets.pair import Pair
from cachemend.datasets.pair_build import SEED, Built, first_of_each_label, text_id
from cachemend.datasets.pair_files import read_text
from cachemend.datasets.pairs_xstest_wording import ANSWER_CLOSINGS, answer, refusal, reworded
from cachemend.datasets.seeded import draw
from cachemend.repair_core.errors import InputError

QUOTA = 399
FILE = "xstest/xstest_prompts.csv"
_TYPES = f"known: {', '.join(sorted(ANSWER_CLOSINGS))}"
_COLUMNS = ("id", "prompt", "type", "label", "focus")


class Prompt(NamedTuple):
    """A row of the source: its id, text, type ("homonyms", ...), whether it is safe, and its focus group."""

    name: str
    text: str
    kind: str
    safe: bool
    focus: str


class Block(NamedTuple):
    """A safe and an unsafe prompt of one focus group, and what asks again for the refusal of the latter."""

    safe: Prompt
    unsafe: Prompt
    also_unsafe: Prompt | None


def read_prompts(folder: Path) -> list[Prompt]:
    """Read ``xstest/xstest_prompts.csv`` under a data folder.

    Raises:
        InputError: a file that is missing or cannot be read, a missing column, or a label of another name.
    """
    path = folder / FILE
    reader = csv.DictReader(io.StringIO(read_text(path), newline=""))
    missing = [name for name in _COLUMNS if name not in (reader.fieldnames or ())]
    if missing:
        raise InputError(f"{path}: column {', '.join(missing)} is missing; expected {', '.join(_COLUMNS)}")
    prompts = []
    for number, row in enumerate(reader, 2):
        if any(row[name] is None for name in _COLUMNS):
            raise InputError(f"{path}, row {number}: fewer fields than columns")
        if row["label"] not in ("safe", "unsafe"):
            raise InputError(f"{path}, row {number}: label {row['label']!r} is neither 'safe' nor 'unsafe'")
        safe = row["label"] == "safe"
        if safe and row["type"] not in ANSWER_CLOSINGS:
            raise InputError(f"{path}, row {number}: type {row['type']!r} of a safe prompt; {_TYPES}")
        prompts.append(Prompt(row["id"], row["prompt"].strip(), row["type"], safe, row["focus"].strip()))
    return prompts


def build_xstest(folder: Path, *, n: int = QUOTA, seed: int = SEED) -> Built:
    """Build `n` pairs, half of them valid, or as many as the file holds; no prompt is in more than four.

    Args:
        folder: the data folder, in which the source has ``xstest``.
        n: the number of pairs.
        seed: the sampling seed.

    Raises:
        InputError: a file that is missing or cannot be read, or a row of another form.
    """
    rejects: Counter[str] = Counter()
    pairs = [pair for block in _blocks(read_prompts(folder), rejects, seed=seed) for pair in _pairs(block, seed=seed)]
    kept = first_of_each_label(pairs, valid=n // 2, invalid=n - n // 2)
    return Built(kept.pairs, dict(rejects + Counter(kept.rejects)))


def _blocks(prompts: list[Prompt], rejects: Counter[str], *, seed: int) -> list[Block]:
    """Blocks in a seeded order: the first of every group, then the second ones. No prompt is in two blocks."""
    groups: dict[str, list[Prompt]] = {}
    for prompt in sorted(prompts, key=lambda prompt: (draw(seed, "xstest", prompt.name), prompt.name)):
        if prompt.focus:
            groups.setdefault(prompt.focus, []).append(prompt)
        else:
            rejects["a prompt without a focus group"] += 1
    turns: list[tuple[int, int, str, Block]] = []
    for focus, group in groups.items():
        safe = [prompt for prompt in group if prompt.safe]
        unsafe = [prompt for prompt in group if not prompt.safe]
        blocks: list[Block] = []
        while safe and unsafe:
            refused = unsafe.pop()
            # In a group's first block another unsafe prompt asks again, where one is refused for the same reason.
            reuse = not blocks and unsafe and refusal(unsafe[-1].kind) == refusal(refused.kind)
            blocks.append(Block(safe.pop(), refused, unsafe.pop() if reuse else None))
        rejects["a prompt without a contrast left in its focus group"] += len(safe) + len(unsafe)
        turns += [(place, draw(seed, "xstest", "group", focus), focus, block) for place, block in enumerate(blocks)]
    return [block for *_, block in sorted(turns, key=lambda turn: turn[:3])]


def _pairs(block: Block, *, seed: int) -> Iterator[Pair]:
    safe, unsafe, other = block
    again_safe = reworded(safe.text, seed, "xstest", safe.name)
    again_unsafe = reworded(unsafe.text, seed, "xstest", unsafe.name) if other is None else other.text
    held = "xstest-reworded-refusal" if other is None else "xstest-refusal-reuse"
    answered, refused = answer(safe.text, safe.kind), refusal(unsafe.kind)
    yield _pair(safe, answered, again_safe, "xstest-reworded-answer", 1)
    yield _pair(unsafe, refused, again_safe, "xstest-refuses-safe", 0)
    yield _pair(unsafe, refused, again_unsafe, held, 1)
    yield _pair(safe, answered, again_unsafe, "xstest-answers-unsafe", 0)


def _pair(cached: Prompt, response: str, said: str, rule: str, label: int) -> Pair:
    return Pair(
        pair_id=text_id("xstest", cached.text, response, said),
        pool="reconstruction",
        source="xstest",
        family="refusal-validity",
        cluster=f"xstest:{cached.focus}",
        rule=rule,
        label=label,
        q_cache=cached.text,
        r_cache=response,
        context_cache="",
        q_probe=said,
        context_probe="",
    )
