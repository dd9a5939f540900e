"""How numbers and times are written on the page: Jinja filters, each total over None."""

import json
import math
from collections.abc import Callable
from datetime import datetime
from typing import Any

MISSING = "–"
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float | None, digits: int = 1) -> str:
    """Return a number with a fixed count of decimals."""
    if value is None or not math.isfinite(value):
        return MISSING
    text = f"{value:,.{digits}f}"
    return text.replace("-", "−") if float(text.replace(",", "")) != 0 else text.lstrip("-")


def percent(value: float | None, digits: int = 1) -> str:
    """Return a percentage with its sign, which does not wrap to another line."""
    return MISSING if value is None else f"{number(value, digits)}\u00a0%"


def signed(value: float | None, digits: int = 1) -> str:
    """Return a number with its sign; zero has none."""
    text = number(value, digits)
    return f"+{text}" if value is not None and text[0] not in f"−{MISSING}" and value > 0 else text


def p_value(p: float | None) -> str:
    """Return a p-value with three decimals, and with two significant digits below 0.001."""
    if p is None:
        return MISSING
    if p >= 0.0005 or p == 0:
        return f"{p:.3f}"
    mantissa, exponent = f"{p:.1e}".split("e")
    return f"{mantissa} × 10{str(int(exponent)).translate(_SUPERSCRIPT)}"


def p_clause(p: float) -> str:
    """Return ``p = 0.012`` for a sentence."""
    return f"p = {p_value(p)}"


def when(moment: datetime | None) -> str:
    """Return a UTC time to the minute."""
    return MISSING if moment is None else f"{moment:%Y-%m-%d %H:%M} UTC"


def day(moment: datetime) -> str:
    """Return a date."""
    return f"{moment:%Y-%m-%d}"


def duration(seconds: float | None) -> str:
    """Return seconds as ``12 s``, ``3 min 20 s`` or ``2 h 05 min``."""
    if seconds is None:
        return MISSING
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def short(digest: str | None, length: int = 12) -> str:
    """Return the first characters of a digest."""
    return MISSING if digest is None else digest[:length]


def plural(count: int, noun: str, many: str | None = None) -> str:
    """Return ``1 case`` or ``3 cases``."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def facts(value: Any) -> str:
    """Return a JSON object as one ``name: value`` line per entry, any other value as one line."""
    if not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    shown = {name: v if isinstance(v, str) else json.dumps(v, ensure_ascii=False) for name, v in value.items()}
    return "\n".join(f"{name}: {text}" for name, text in shown.items())


FILTERS: dict[str, Callable[..., str]] = {
    "number": number,
    "percent": percent,
    "signed": signed,
    "p_value": p_value,
    "when": when,
    "duration": duration,
    "short": short,
    "plural": plural,
    "facts": facts,
}
