"""SituatedQA as published: questions whose answer depends on the date they are asked for."""

from pathlib import Path
from typing import Any, NamedTuple

from cachemend.datasets.pair_files import parse_json, read_text
from cachemend.repair_core.errors import InputError

FILE = "situatedqa/qa_data/temp.dev.jsonl"


class Asked(NamedTuple):
    """A question at a date.

    Attributes:
        row: the line's number in the file, from 1.
        dated: the question with its date, as the source words it.
        date: a year or a full date, as text.
        answers: the answers as written, without repetitions, in the order of the file.
    """

    row: int
    dated: str
    date: str
    answers: tuple[str, ...]

    @property
    def key(self) -> frozenset[str]:
        """The answers without regard to case, order and white space."""
        return frozenset(" ".join(answer.casefold().split()) for answer in self.answers)


class Question(NamedTuple):
    """A question and the dates it was asked for.

    Attributes:
        name: the source's id of it.
        words: the question without a date.
        asked: one entry per date, in the order of the file.
    """

    name: str
    words: str
    asked: tuple[Asked, ...]


def read_questions(folder: Path) -> list[Question]:
    """Read ``situatedqa/qa_data/temp.dev.jsonl`` under a data folder; rows of one id are one question.

    Raises:
        InputError: a file that is missing or cannot be read, or a row of another form.
    """
    path = folder / FILE
    rows: dict[str, tuple[str, list[Asked]]] = {}
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if line.strip():
            where = f"{path}, row {number}"
            name, words, asked = _row(parse_json(line, where), number, where)
            rows.setdefault(name, (words, []))[1].append(asked)
    return [Question(name, words, tuple(asked)) for name, (words, asked) in rows.items()]


def _row(row: Any, number: int, where: str) -> tuple[str, str, Asked]:
    wanted = {"question": str, "edited_question": str, "date": str, "answer": list}
    if not isinstance(row, dict):
        raise InputError(f"{where}: expected an object with id, {', '.join(wanted)}")
    for name, kind in wanted.items():
        if not isinstance(row.get(name), kind):
            raise InputError(f"{where}: column {name} is missing or no {kind.__name__}")
    if "id" not in row:
        raise InputError(f"{where}: column id is missing")
    if not all(isinstance(answer, str) for answer in row["answer"]):
        raise InputError(f"{where}: column answer holds something other than text")
    answers = tuple(dict.fromkeys(row["answer"]))
    return str(row["id"]), row["question"], Asked(number, row["edited_question"], row["date"], answers)
