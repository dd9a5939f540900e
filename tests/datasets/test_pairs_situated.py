"""Pairs from SituatedQA: the label by the answer sets at two dates, and faults of the file."""

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from cachemend.datasets.pair_build import in_hard_arm
from cachemend.datasets.pairs_situated import build_situated
from cachemend.datasets.pairs_situated_files import FILE
from cachemend.repair_core.errors import InputError

SHARED = Path(__file__).resolve().parents[2] / "../shared/data"
needs_data = pytest.mark.skipif(not (SHARED / FILE).is_file(), reason="SituatedQA is not beside this checkout")


def row(question: str, date: str, *answers: str, name: str | None = None) -> dict[str, Any]:
    return {
        "question": question,
        "id": name or question,
        "edited_question": f"{question} as of {date}",
        "date": date,
        "date_type": "sampled_year",
        "answer": list(answers),
        "any_answer": list(answers),
    }


def write(folder: Path, rows: list[dict[str, Any]]) -> Path:
    path = folder / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(one) + "\n" for one in rows), encoding="utf-8")
    return folder


def in_pool(n: int) -> list[str]:
    return [name for i in range(9 * n) if not in_hard_arm("situatedqa", name := f"question {i}", seed=1)][:n]


def test_four_pairs_of_a_question_with_two_answers_at_two_dates_each(tmp_path: Path) -> None:
    (name,) = in_pool(1)
    rows = [row(name, date, answer) for date, answer in (("2001", "A"), ("2002", "a "), ("2003", "B"), ("2004", "B"))]
    built = build_situated(write(tmp_path, rows), n=4, seed=1)
    answers = {"2001": "a", "2002": "a", "2003": "b", "2004": "b"}
    seen = set()
    for pair in built.pairs:
        cached, probe = (text.removeprefix("as of ") for text in (pair.context_cache, pair.context_probe))
        assert cached != probe
        assert pair.label == (answers[cached] == answers[probe])
        assert pair.r_cache.strip().casefold() == answers[cached]
        assert (pair.q_cache, pair.q_probe) == (f"{name} as of {cached}", f"{name} as of {probe}")
        assert pair.cluster == f"situatedqa:{name}"
        seen.add((cached, probe))
    assert len(seen) == 4
    assert built.rejects == {}


def test_questions_that_give_no_label_are_counted(tmp_path: Path) -> None:
    one, two, three, four = in_pool(4)
    hard = next(name for i in range(99) if in_hard_arm("situatedqa", name := f"hard {i}", seed=1))
    rows = [
        *(row(one, date, "A") for date in ("2001", "2002")),
        *(row(two, date, *answers) for date, answers in (("1", "AB"), ("2", "AB"), ("3", "A"), ("4", "A"))),
        *(row(three, date, answer) for date, answer in (("1", "A"), ("1", "B"), ("2", "A"), ("3", "B"))),
        *(row(four, date, answer) for date, answer in (("1", "A"), ("2", "B"), ("3", "B"))),
        row(hard, "2001", "A"),
    ]
    built = build_situated(write(tmp_path, rows), n=8, seed=1)
    assert built.pairs == ()
    assert built.rejects == {
        "one answer only": 1,
        "no two answers of two dates each without overlap": 2,
        "two answers at one date": 1,
        "a question of the other arm": 1,
    }


def test_an_odd_number_has_one_more_invalid_pair_and_the_seed_decides(tmp_path: Path) -> None:
    rows = [row(name, str(d), "AB"[d > 2]) for name in in_pool(12) for d in range(1, 6)]
    built = build_situated(write(tmp_path, rows), n=7, seed=1)
    assert Counter(pair.label for pair in built.pairs) == {1: 3, 0: 4}
    assert build_situated(tmp_path, n=7, seed=1) == built
    assert build_situated(tmp_path, n=7, seed=2).pairs != built.pairs


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"[1]", "row 2: expected an object"),
        (b'{"question": "q"', "row 2 is not JSON"),
        (json.dumps({k: v for k, v in row("q", "1", "A").items() if k != "date"}).encode(), "row 2: column date"),
        (json.dumps({k: v for k, v in row("q", "1", "A").items() if k != "id"}).encode(), "row 2: column id"),
        (json.dumps(row("q", "1", "A") | {"answer": [1]}).encode(), "row 2: column answer"),
        (b'{"question": "\xe4"}', "is not UTF-8"),
    ],
)
def test_a_faulty_row_is_named_without_its_text(tmp_path: Path, line: bytes, said: str) -> None:
    write(tmp_path, [row("a secret question", "1", "A")])
    with (tmp_path / FILE).open("ab") as file:
        file.write(line)
    with pytest.raises(InputError, match=said) as raised:
        build_situated(tmp_path)
    assert FILE in str(raised.value)
    assert "secret" not in str(raised.value)


def test_an_absent_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"temp\.dev\.jsonl does not exist"):
        build_situated(tmp_path)


@needs_data
def test_the_published_file_fills_the_quota_with_labels_that_its_rows_give() -> None:
    built = build_situated(SHARED)
    assert Counter(pair.label for pair in built.pairs) == {1: 150, 0: 150}
    assert len({pair.cluster for pair in built.pairs}) == 75
    answers: dict[str, list[set[str]]] = defaultdict(list)
    for line in (SHARED / FILE).read_text(encoding="utf-8").splitlines():
        read = json.loads(line)
        answers[read["edited_question"]].append({" ".join(a.lower().split()) for a in read["answer"]})
    for pair in built.pairs:
        (cached,), (probe,) = answers[pair.q_cache][:1], answers[pair.q_probe][:1]
        assert (cached == probe) if pair.label else not (cached & probe)
    for texts in (lambda p: (p.q_probe, p.context_probe), lambda p: (p.q_cache, p.r_cache, p.context_cache)):
        by_label = [Counter(texts(pair) for pair in built.pairs if pair.label == label) for label in (0, 1)]
        assert by_label[0] == by_label[1]
