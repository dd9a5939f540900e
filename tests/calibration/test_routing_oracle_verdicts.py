"""The verifier's words, from its output to what is returned, against the oracle, with slips in reading them."""

from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachemend.calibration import verdicts
from cachemend.calibration.candidate import Candidate
from cachemend.calibration.routing import REGENERATE, REUSE, VERIFY, TokenBucket, VerifierBudget, replay
from cachemend.calibration.verdicts import Verdict

from oracles import routing_verdicts as oracle
from support.oracle_cases import BUDGETS, QUICK, notices

WORDS = ["VALID", "INVALID", "UNCERTAIN", "valid", " VALID", "VALID\n", "VALID.", "VALID VALID", "", "NOT VALID"]
OUTPUTS = st.sampled_from([*WORDS, None]) | st.text(max_size=6)
CALLS = st.lists(st.tuples(st.sampled_from([REGENERATE, REUSE, VERIFY, VERIFY]), OUTPUTS), max_size=20)
TEXTS = st.text(st.sampled_from('a"\\\n\x00é你 :,{}👍'), max_size=8)
CANDIDATES = st.builds(Candidate, **dict.fromkeys(oracle.FIELDS, TEXTS))


def read(output: str | None) -> Verdict:
    """Return the verdict of an output; None for a call that failed."""
    return Verdict.FAILED if output is None else verdicts.parse_verdict(output)


def compare_reading(calls: list[tuple[int, str | None]], budget: float) -> None:
    accepts = [read(output).accepts for _, output in calls]
    found = replay([action for action, _ in calls], accepts, range(len(calls)), budget)
    granted = oracle.window_grants([action == VERIFY for action, _ in calls], budget)
    for at, (action, output) in enumerate(calls):
        assert found.accepted[at] == (action == REUSE or (granted[at] and oracle.accepts(output)))
        name = {"failure": "FAILED"}.get(oracle.reading(output), oracle.reading(output).upper())
        assert read(output).name == name


def compare_message(candidate: Candidate) -> None:
    assert oracle.is_message(verdicts.verifier_message(candidate), asdict(candidate))
    assert verdicts.RESPONSE_VALIDITY.instruction == verdicts.INSTRUCTION == oracle.INSTRUCTION


@QUICK
@given(CALLS, BUDGETS)
def test_reading(calls: list[tuple[int, str | None]], budget: float) -> None:
    compare_reading(calls, budget)


@QUICK
@given(CANDIDATES)
def test_message(candidate: Candidate) -> None:
    compare_message(candidate)


@QUICK
@given(st.lists(st.booleans(), max_size=30), BUDGETS, st.integers(1, 9), st.booleans())
def test_budget_as_requests_come(wants: list[bool], budget: float, size: int, bucket: bool) -> None:
    """While serving nobody knows how many will come: a window that is cut short has had all its calls."""
    meter = VerifierBudget(budget, TokenBucket(capacity=size) if bucket else size)
    found = [meter.take(want) for want in wants]
    if bucket:
        assert found == oracle.bucket_grants(wants, budget, size)
    else:
        filled = wants + [False] * (-len(wants) % size)
        assert found == oracle.window_grants(filled, budget, size)[: len(wants)]


PARSE = verdicts.parse_verdict
READING_FAULTS: list[Any] = [
    lambda text: PARSE(text.strip()),
    lambda text: PARSE(text.upper()),
    lambda text: PARSE(text.rstrip(".")),
    lambda text: PARSE(text[:5]),
    lambda text: PARSE((text.split() or [""])[0]),
    lambda text: Verdict.VALID if "VALID" in text else PARSE(text),
    lambda text: Verdict.VALID if text not in ("INVALID", "UNCERTAIN") else PARSE(text),
    lambda text: Verdict.VALID if text == "UNCERTAIN" else PARSE(text),
]
DUMP = verdicts.compact_json
MESSAGE_FAULTS: list[Any] = [
    lambda fields: DUMP(dict(sorted(fields.items()))),
    lambda fields: DUMP({name: text.strip() for name, text in fields.items()}),
    lambda fields: DUMP({name: text for name, text in fields.items() if text}),
    lambda fields: DUMP({name: text[:4] for name, text in fields.items()}),
    lambda fields: DUMP(fields).replace(":", ": "),
]


@pytest.mark.parametrize("fault", READING_FAULTS)
def test_a_slip_in_reading_is_noticed(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdicts, "parse_verdict", fault)
    assert notices(compare_reading, CALLS, BUDGETS)


@pytest.mark.parametrize("fault", MESSAGE_FAULTS)
def test_a_slip_in_the_message_is_noticed(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdicts, "compact_json", fault)
    assert notices(compare_message, CANDIDATES)
