"""Background documents around a record: paragraphs of our own, or those of a file the user has.

Development and held-out items never share a paragraph: a paragraph belongs to one of them by its index.
"""

import gzip
import hashlib
import json
import zlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from cachemend.datasets.niah_filler import filler_sentences
from cachemend.datasets.seeded import below, shuffled
from cachemend.repair_core.errors import InputError

SPLITS = ("dev", "held-out")
EMBEDDED = "embedded"
# Shorter ones are stubs; one longer than this could push an edit out of its window all by itself.
SHORTEST, LONGEST = 80, 1200
_N_EMBEDDED = 288
_SEED = 20_260_917
_LENGTHS = (4, 5, 6)

_TITLE_KINDS: tuple[str, ...] = (
    "Notes from",
    "A week at",
    "The keepers of",
    "Letters about",
    "Seasons at",
    "A walk around",
    "Work and rest at",
    "Mornings at",
    "Stories told at",
    "A visitor's guide to",
    "Small repairs at",
    "The weather over",
)
_TITLE_PLACES: tuple[str, ...] = (
    "the old harbour",
    "the mill pond",
    "the upper meadow",
    "the market square",
    "the parish hall",
    "the railway cottages",
    "the glass house",
    "the long orchard",
    "the stone bridge",
    "the weaving shed",
    "the chapel garden",
    "the ferry landing",
    "the brick yard",
    "the corner bakery",
    "the rowing club",
    "the sheep fold",
    "the bell tower",
    "the village school",
    "the salt marsh",
    "the beech wood",
    "the tram depot",
    "the reading room",
    "the walled garden",
    "the fish market",
)


class Paragraph(NamedTuple):
    """A background document; neither part holds a line break."""

    title: str
    text: str

    @property
    def document(self) -> str:
        """The paragraph as it stands in a context: the title on its own line, where there is one."""
        return f"{self.title}\n{self.text}" if self.title else self.text


@dataclass(frozen=True, kw_only=True)
class Background:
    """Distinct paragraphs in a fixed order.

    Attributes:
        name: "embedded" or the file's name.
        fingerprint: SHA-256 over all paragraphs.
        paragraphs: all of them; an even index belongs to development, an odd one to held-out items.
    """

    name: str
    fingerprint: str
    paragraphs: tuple[Paragraph, ...]

    def of_split(self, split: str) -> tuple[Paragraph, ...]:
        """The paragraphs that items of a split may use."""
        return self.paragraphs[SPLITS.index(split) :: len(SPLITS)]


def draw_paragraph(pool: tuple[Paragraph, ...], used: set[int], *labels: str | int) -> Paragraph | None:
    """Return a paragraph determined by the labels that is not `used` yet, and mark it; None when all are used."""
    if len(used) == len(pool):
        return None
    index = below(len(pool), *labels)
    while index in used:
        index = (index + 1) % len(pool)
    used.add(index)
    return pool[index]


def load_background(source: str = "") -> Background:
    """Return the embedded paragraphs for "", else those of a file.

    A file is a JSON list or JSON lines in UTF-8, plain or gzipped. Its rows are ``{"title": ..., "text": ...}`` or
    HotpotQA questions, of which only the context paragraphs are used. Equal texts count once; very short and very long
    paragraphs are left out.

    Raises:
        InputError: no such file, or content of another form; the line names the file and the row.
    """
    if not source:
        return _embedded()
    path = Path(source)
    if not path.is_file():
        raise InputError(f"background file {source} does not exist")
    return _read(path, path.stat().st_mtime_ns)


def _background(name: str, paragraphs: list[Paragraph]) -> Background:
    content = json.dumps(paragraphs, ensure_ascii=True).encode("ascii")
    return Background(name=name, fingerprint=hashlib.sha256(content).hexdigest(), paragraphs=tuple(paragraphs))


@lru_cache(maxsize=1)
def _embedded() -> Background:
    """Paragraphs of four to six filler sentences, none of which comes twice, under titles that differ."""
    titles = shuffled((f"{kind} {place}" for kind in _TITLE_KINDS for place in _TITLE_PLACES), _SEED, "title")
    sentences = list(filler_sentences(_SEED, max(_LENGTHS) * _N_EMBEDDED))
    paragraphs = []
    for index in range(_N_EMBEDDED):
        length = _LENGTHS[below(len(_LENGTHS), _SEED, "length", index)]
        paragraphs.append(Paragraph(titles[index], " ".join(sentences[:length])))
        del sentences[:length]
    return _background(EMBEDDED, paragraphs)


@lru_cache(maxsize=4)
def _read(path: Path, _changed: int) -> Background:
    """Read a file once per change of it."""
    texts: dict[str, str] = {}
    for number, row in enumerate(_rows(path), 1):
        for title, text in _paragraphs_of(path, number, row):
            if SHORTEST <= len(text) <= LONGEST:
                texts.setdefault(text, title)
    if len(texts) < len(SPLITS):
        raise InputError(f"background file {path} holds {len(texts)} usable paragraphs; it needs at least 2")
    return _background(path.name, [Paragraph(title, text) for text, title in texts.items()])


def _rows(path: Path) -> list[Any]:
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise InputError(f"background file {path} cannot be read: {error}") from error
    try:
        if text.lstrip().startswith("["):
            rows = json.loads(text)
        else:
            rows = [json.loads(line) for line in text.split("\n") if line.strip()]
    except (ValueError, RecursionError) as error:
        raise InputError(f"background file {path} is neither a JSON list nor JSON lines: {error}") from error
    return list(rows)


def _paragraphs_of(path: Path, number: int, row: Any) -> list[tuple[str, str]]:
    """The paragraphs of one row, with every run of white space made one blank: a blank line ends a document."""
    try:
        if "context" in row:
            pairs = [(title, " ".join(sentences)) for title, sentences in row["context"]]
        else:
            pairs = [(row.get("title", ""), row["text"])]
        return [(" ".join(title.split()), " ".join(text.split())) for title, text in pairs]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"background file {path}, row {number}: expected title and text, or a HotpotQA context of "
            f"[title, sentences] pairs ({type(error).__name__} {error})"
        ) from error
