"""Where text may be cut: containers (messages, structured blocks) and the pieces inside them.

Sentences follow the Unicode sentence-boundary rules (UAX #29): a line break always ends one; a terminator
ends one unless a digit, a lower-case letter or another terminator's context says it does not.
"""

from collections.abc import Iterable
from itertools import pairwise

import regex

from cachemend.repair_core.text import Span

# Fenced code; a JSON-like block whose first line opens and whose last line closes a bracket; an XML-like element.
_STRUCTURED = regex.compile(
    r"""
      ^[ \t]*(?P<fence>```+|~~~+)[^\n]*\n(?:.*?\n)??[ \t]*(?P=fence)[ \t]*(?:\n|\Z)
    | ^[ \t]*\{[^\n]*\n(?:.*?\n)??[ \t]*\}[,;]?[ \t]*(?:\n|\Z)
    | ^[ \t]*\[[^\n]*\n(?:.*?\n)??[ \t]*\][,;]?[ \t]*(?:\n|\Z)
    | ^[ \t]*[\{\[][^\n]*[\}\]][ \t]*(?:\n|\Z)
    | ^[ \t]*<(?P<tag>[A-Za-z_][\w:.-]*)(?:\s[^>\n]*)?>.*?</(?P=tag)>[ \t]*(?:\n|\Z)
    """,
    regex.VERBOSE | regex.MULTILINE | regex.DOTALL,
)
_LINE_BREAK = regex.compile(r"\r\n|[\n\r\u0085\u2028\u2029]")
_TERMINATOR = regex.compile(
    r"(?P<mark>[\p{Sentence_Break=STerm}\p{Sentence_Break=ATerm}]+)"
    r"(?P<close>\p{Sentence_Break=Close}*)(?P<space>\p{Sentence_Break=Sp}*)"
)
_A_TERM = regex.compile(r"\p{Sentence_Break=ATerm}")
_NUMERIC = regex.compile(r"\p{Sentence_Break=Numeric}")
_UPPER = regex.compile(r"\p{Sentence_Break=Upper}")
_CONTINUES = regex.compile(r"[\p{Sentence_Break=SContinue}\p{Sentence_Break=STerm}\p{Sentence_Break=ATerm}]")
_LOWER_NEXT = regex.compile(
    r"[^\p{Sentence_Break=OLetter}\p{Sentence_Break=Upper}\p{Sentence_Break=Lower}\p{Sentence_Break=Sep}"
    r"\p{Sentence_Break=CR}\p{Sentence_Break=LF}\p{Sentence_Break=STerm}\p{Sentence_Break=ATerm}]*"
    r"\p{Sentence_Break=Lower}"
)


def containers(text: str, message_starts: Iterable[int] = ()) -> list[list[Span]]:
    """Partition `text` into containers, each a list of consecutive pieces.

    Args:
        text: any text; empty text has no containers.
        message_starts: characters at which a chat message begins.

    A container is a message or a structured block (fenced code, JSON- or XML-like) inside one; pieces are
    paragraphs, list items, table rows (each ends with its line) and sentences.
    """
    cuts = {0, len(text), *(start for start in message_starts if 0 < start < len(text))}
    cuts.update(edge for block in _STRUCTURED.finditer(text) for edge in block.span())
    inner = sorted({*cuts, *sentence_breaks(text)})
    out: list[list[Span]] = []
    for start, stop in pairwise(inner):
        if start in cuts:
            out.append([])
        out[-1].append(Span(start, stop))
    return out


def sentence_breaks(text: str) -> list[int]:
    """Character offsets after which a new sentence begins (none at 0 or at the end)."""
    found = {match.end() for match in _LINE_BREAK.finditer(text)}
    found.update(match.end() for match in _TERMINATOR.finditer(text) if _ends_sentence(text, match))
    return sorted(cut for cut in found if 0 < cut < len(text))


def _ends_sentence(text: str, match: "regex.Match[str]") -> bool:
    end = match.end()
    following = text[end : end + 1]
    if _LINE_BREAK.match(following) or _CONTINUES.match(following):
        return False
    if not _A_TERM.match(match["mark"][-1]):
        return True
    if not match["close"] and not match["space"]:
        before = text[match.start() - 1 : match.start()]
        if _NUMERIC.match(following) or (_UPPER.match(before) and _UPPER.match(following)):
            return False
    return not _LOWER_NEXT.match(text, end)
