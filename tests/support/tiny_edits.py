"""Edited items for a tiny random model, whose answers are whatever it happens to say before and after the edit."""

import re
from dataclasses import replace
from itertools import permutations

from cachemend.datasets.edit_case import EditCase
from cachemend.datasets.edit_sequence_case import EditSequenceCase, Probe, SpanChange
from cachemend.datasets.niah_filler import filler_sentences
from cachemend.repair_core import LoadedModel, answer, prefill
from cachemend.repair_core.intervals import Interval

QUERY = "Question: which clerk is on duty?"


def edit_case(loaded: LoadedModel, seed: int, old: str = "4", new: str = "7", sentences: int = 24) -> EditCase:
    """An item of a few hundred tokens whose record's one digit changes; its answers are digits."""
    lines = filler_sentences(seed, sentences)
    cut = sentences // 3
    lead, tail = "\n\n".join(lines[:cut]), "\n\n".join(lines[cut:])
    record = ["Active desk: ", old, ".", f" Desk {old} clerk: 51. Desk {new} clerk: 83."]
    ids = [loaded.tokenizer(part, add_special_tokens=False)["input_ids"] for part in (f"{lead}\n\n", *record, "\n\n")]
    rest = loaded.tokenizer(tail, add_special_tokens=False)["input_ids"]
    changed = loaded.tokenizer(new, add_special_tokens=False)["input_ids"]
    assert len(changed) == len(ids[2]) == 1
    original = [token for part in (*ids, rest) for token in part]
    start = len(ids[0]) + len(ids[1])
    carrier = start + len(ids[2]) + len(ids[3])
    block_stop = carrier + len(ids[4])
    edited = [*original[:start], *changed, *original[start + 1 :]]
    query = loaded.tokenizer(f"\n{QUERY} Answer:", add_special_tokens=False)["input_ids"]
    return EditCase(
        case_id=f"tiny-{seed}-{old}{new}",
        item_id=f"tiny-{seed}",
        split="dev",
        condition="derived",
        distance=0,
        actual_distance=carrier - start - 1,
        family="desk",
        seed=seed,
        original_ids=tuple(original),
        edited_ids=tuple(edited),
        span=(start, start + 1),
        carrier=(carrier, block_stop),
        block_stop=block_stop,
        query_ids=tuple(query),
        relevance_ids=tuple(loaded.tokenizer(QUERY, add_special_tokens=False)["input_ids"]),
        query_text=QUERY,
        context_text=loaded.tokenizer.decode(edited),
        old_span_text=old,
        new_span_text=new,
        old_answer="51",
        new_answer="83",
        old_ids=tuple(loaded.tokenizer(" 51", add_special_tokens=False)["input_ids"]),
        new_ids=tuple(loaded.tokenizer(" 83", add_special_tokens=False)["input_ids"]),
    )


def retained_cases(loaded: LoadedModel, count: int, sentences: int = 14) -> list[EditCase]:
    """Items whose new answer is what the model says to the edited context, and likelier there than before."""
    found: list[EditCase] = []
    for seed in range(1, 60):
        for old, new in permutations("2479", 2):
            case = _with_spoken_answer(loaded, edit_case(loaded, seed, old, new, sentences))
            if case is not None:
                found.append(case)
                break
        if len(found) == count:
            return found
    raise AssertionError("too few tiny items are retained; give the model another seed")


def _with_spoken_answer(loaded: LoadedModel, case: EditCase) -> EditCase | None:
    said = answer(loaded.model, prefill(loaded.model, case.edited_ids), case.query_ids, 16)
    words = re.findall(r"(?<!\w)[A-Za-z]{2,}(?!\w)", loaded.tokenizer.decode(said.ids))
    if not words:
        return None
    case = replace(case, new_answer=words[0], new_ids=said.ids[:2], old_answer="Quillon")
    ids = (case.new_ids, case.old_ids)
    clean, stale = (
        answer(loaded.model, prefill(loaded.model, context), case.query_ids, 0, continuations=ids).logprobs
        for context in (case.edited_ids, case.original_ids)
    )
    gap = (clean[0] - clean[1]) - (stale[0] - stale[1])
    return case if gap > 0.05 else None


def sequence_case(loaded: LoadedModel, seed: int, n_edits: int) -> EditSequenceCase:
    """A context with `n_edits` records, one digit of each of which changes."""

    def ids(text: str) -> tuple[int, ...]:
        return tuple(loaded.tokenizer(text, add_special_tokens=False)["input_ids"])

    lines = filler_sentences(seed, 3 * (n_edits + 1))
    context: list[int] = []
    changes: list[tuple[int, int, tuple[int, ...]]] = []
    probes: list[Probe] = []
    for number in range(n_edits):
        context += ids("\n\n".join(lines[3 * number : 3 * number + 3]) + f"\n\nDesk {number} clerk: ")
        changes.append((len(context), len(context) + 1, ids("7")))
        context += ids("4") + ids(".\n\n")
        question = f"Which clerk is at desk {number}?"
        probes.append(
            Probe(
                condition="direct",
                family="desk",
                query_ids=ids(f"{question} Answer:"),
                relevance_ids=ids(question),
                query_text=question,
                old_answer="4",
                new_answer="7",
                old_ids=ids(" 4"),
                new_ids=ids(" 7"),
                carrier=Interval(*changes[-1][:2]),
                block_stop=len(context),
            )
        )
    context += ids(" ".join(lines[-3:]))
    return EditSequenceCase(
        case_id=f"tiny-sequence-{n_edits}-s{seed}",
        split="dev",
        seed=seed,
        original_ids=tuple(context),
        context_text=loaded.tokenizer.decode(context),
        changes=tuple(SpanChange(*change) for change in changes),
        probes=tuple(probes),
    )
