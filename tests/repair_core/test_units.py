from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachemend.repair_core.boundaries import containers, sentence_breaks
from cachemend.repair_core.text import Span
from cachemend.repair_core.units import build_units

from oracles import units as oracle


@st.composite
def _segmented(draw: st.DrawFn) -> tuple[list[Span], list[list[Span]]]:
    """Token spans over a text cut into containers and pieces, at independent places."""
    widths = draw(st.lists(st.integers(0, 3), min_size=1, max_size=60))
    widths = widths if any(widths) else [1, *widths]
    edges = [0]
    for width in widths:
        edges.append(edges[-1] + width)
    spans = [Span(a, b) for a, b in pairwise(edges)]
    total = edges[-1]
    cuts = sorted(draw(st.sets(st.integers(1, total))) | {0, total})
    walls = draw(st.sets(st.sampled_from(cuts)))
    pieces: list[list[Span]] = []
    for start, stop in pairwise(cuts):
        if not pieces or start in walls:
            pieces.append([])
        pieces[-1].append(Span(start, stop))
    return spans, pieces


@given(_segmented(), st.sampled_from([(128, 8), (6, 3), (9, 2)]))
def test_units_equal_the_oracle(case: tuple[list[Span], list[list[Span]]], limits: tuple[int, int]) -> None:
    spans, pieces = case
    ours = [list(range(u.start, u.stop)) for u in build_units(spans, pieces, *limits)]
    assert ours == oracle.units([tuple(s) for s in spans], [[tuple(p) for p in c] for c in pieces], *limits)


def test_units_by_hand() -> None:
    # One character per token: a sentence of 3 joins its shorter neighbour (10 before, 20 after: the preceding).
    spans = [Span(i, i + 1) for i in range(33)]
    pieces = [[Span(0, 10), Span(10, 13), Span(13, 33)]]
    assert [tuple(u) for u in build_units(spans, pieces)] == [(0, 13), (13, 33)]
    # The same pieces in two containers: the short one may only join inside its own.
    pieces = [[Span(0, 10)], [Span(10, 13), Span(13, 33)]]
    assert [tuple(u) for u in build_units(spans, pieces)] == [(0, 10), (10, 33)]
    # 300 tokens in one piece: three chunks of 100; 257: 86 + 86 + 85.
    long = [Span(i, i + 1) for i in range(257)]
    assert [u.length for u in build_units(long, [[Span(0, 257)]])] == [86, 86, 85]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two. Three", ["One. ", "Two. ", "Three"]),
        ("It cost 3.14 euros. Fine.", ["It cost 3.14 euros. ", "Fine."]),
        ("See example.com for more.", ["See example.com for more."]),
        ("The U.S.A. won. Yes", ["The U.S.A. won. ", "Yes"]),
        ("He said (Stop!) Then left.", ["He said (Stop!) ", "Then left."]),
        ("etc. and so on. End", ["etc. and so on. ", "End"]),
        ("first line\nsecond line\n\nnext", ["first line\n", "second line\n", "\n", "next"]),
        ("今日は。明日も。", ["今日は。", "明日も。"]),
        ("Wait... what? No!", ["Wait... what? ", "No!"]),
        ("", []),
    ],
)
def test_sentences(text: str, sentences: list[str]) -> None:
    edges = [0, *sentence_breaks(text), len(text)]
    assert [text[a:b] for a, b in pairwise(edges) if a < b] == sentences


def test_structured_blocks_are_containers() -> None:
    code = "```python\nx = 1\n\ny = 2\n```\n"
    json_block = '{\n "a": 1\n}\n'
    xml = "<tool>\n <id>7</id>\n</tool>\n"
    text = f"Before. Text.\n{code}Between.\n{json_block}{xml}After."
    found = ["".join(text[p.start : p.stop] for p in c) for c in containers(text)]
    assert found == ["Before. Text.\n", code, "Between.\n", json_block, xml, "After."]


def test_messages_are_containers() -> None:
    text = "first message second message"
    assert [(c[0].start, c[-1].stop) for c in containers(text, [14])] == [(0, 14), (14, 28)]


@given(st.text(alphabet=st.sampled_from("aB1 .!?\n()`{}[]<>/|-\"'。é"), max_size=120), st.sets(st.integers(0, 119)))
def test_containers_partition_any_text(text: str, starts: set[int]) -> None:
    pieces = [piece for container in containers(text, starts) for piece in container]
    assert "".join(text[p.start : p.stop] for p in pieces) == text
    assert all(p.start < p.stop for p in pieces)
