"""Reading an HTML page back: its elements, tables, sections and scripts, by the standard parser."""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

_VOID = {"meta", "link", "img", "br", "input", "hr", "base"}


@dataclass
class Table:
    """A table: its caption, its section's id, and its rows of cells with white space collapsed."""

    section: str | None
    caption: str = ""
    rows: list[list[str]] = field(default_factory=list)

    def row(self, label: str) -> list[str]:
        """The cells after the first of the one row with this first cell."""
        found = [row for row in self.rows if row[0] == label]
        assert len(found) == 1, (label, [row[0] for row in self.rows])
        return found[0][1:]


class Page(HTMLParser):
    """Every start tag in order, all visible text, tables in order of their start, and script texts."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.styles: list[str] = []
        self.tables: list[Table] = []
        self.pieces: list[tuple[str | None, str]] = []
        self._open: list[str] = []
        self._sections: list[str | None] = []
        self.feed(html)
        self.close()
        assert self._open == [], f"unclosed elements: {self._open}"

    @property
    def text(self) -> str:
        """All visible text with white space collapsed."""
        return _collapsed("".join(piece for _, piece in self.pieces))

    def section(self, key: str) -> str:
        """Visible text of the section with this id."""
        return _collapsed("".join(piece for section, piece in self.pieces if section == key))

    def captioned(self, pattern: str) -> Table:
        """The one table whose caption begins with what the regular expression matches."""
        found = [table for table in self.tables if re.match(pattern, table.caption)]
        assert len(found) == 1, (pattern, [table.caption for table in self.tables])
        return found[0]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, Any]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in _VOID:
            return
        self._open.append(tag)
        if tag == "section":
            self._sections.append(dict(attrs).get("id"))
        if tag == "table":
            self.tables.append(Table(self._section))
        if tag == "tr":
            self.tables[-1].rows.append([])
        if tag in ("td", "th"):
            self.tables[-1].rows[-1].append("")
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        assert self._open[-1] == tag, f"</{tag}> inside <{self._open[-1]}>"
        self._open.pop()
        if tag == "section":
            self._sections.pop()

    def handle_data(self, data: str) -> None:
        if "script" in self._open:
            attrs, text = self.scripts[-1]
            self.scripts[-1] = (attrs, text + data)
        elif "style" in self._open:
            self.styles.append(data)
        else:
            self._visible(data)

    def _visible(self, data: str) -> None:
        self.pieces.append((self._section, data))
        # A break between the parts of a cell, as the page shows it.
        data = f" {data}" if self._open and self._open[-1] in ("small", "span") else data
        if any(tag in self._open for tag in ("td", "th")):
            cells = self.tables[-1].rows[-1]
            cells[-1] = _collapsed(cells[-1] + data)
        elif "caption" in self._open:
            self.tables[-1].caption = _collapsed(self.tables[-1].caption + data)

    @property
    def _section(self) -> str | None:
        return self._sections[-1] if self._sections else None


def _collapsed(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()
