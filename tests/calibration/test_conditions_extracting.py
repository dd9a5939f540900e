"""Records found in typical texts, written down by hand."""

import json

import pytest

from cachemend.calibration.conditions.extracting import (
    HIGH_RISK,
    MAX_CONDITIONS,
    Condition,
    extract_conditions,
    extract_with_origins,
)
from cachemend.calibration.conditions.lexicon import load_lexicon
from cachemend.calibration.conditions.structure import Field, split_text


def records(query: str = "", context: str = "", response: str | None = None) -> set[tuple[str, str, str, str]]:
    return {tuple(condition) for condition in extract_conditions(query, context, response)}  # type: ignore[misc]


def test_a_dialogue_state() -> None:
    context = (
        "service: Restaurants_2\nintent: ReserveRestaurant\nslot.location: San Jose\nslot.time: 7:15 pm\n"
        "slot.smoking: False"
    )
    assert records("", context) == {
        ("dialogue", "service", "is", "restaurants_2"),
        ("dialogue", "intent", "is", "reserverestaurant"),
        ("dialogue", "location", "is", "san jose"),
        ("time", "clock", "field", "19:15"),
        ("dialogue", "smoking", "is", "false"),
        ("action", "response", "is", "answer"),
    }


def test_a_tool_state() -> None:
    context = (
        "order.id: #W5442520\norder.status: pending (items modified)\nreservation.cabin: Basic Economy\n"
        "payment_status: unpaid\nlookup.error: connection reset"
    )
    assert records("", context) == {
        ("subject", "order", "field", "#w5442520"),
        ("tool", "order", "status", "pending items modified"),
        ("tool", "reservation", "cabin", "basic economy"),
        ("tool", "payment", "payment", "unpaid"),
        ("tool", "lookup", "outcome", "failed"),
        ("action", "response", "is", "answer"),
    }


def test_who_may_do_what() -> None:
    context = "user: olivia_ito_3591\ntenant: Acme\nrole: admin\npermission.write: false\nread.permission: granted"
    assert records("", context) == {
        ("subject", "user", "field", "olivia_ito_3591"),
        ("auth", "tenant", "is", "acme"),
        ("auth", "role", "is", "admin"),
        ("auth", "write", "permission", "denied"),
        ("auth", "read", "permission", "granted"),
        ("action", "response", "is", "refuse"),
    }


def test_documents_attachments_and_scope() -> None:
    context = (
        "document.version: 3\nattachment.digest: sha256:0a1b2c3d\nencoder: all-MiniLM-L6-v2\nvisibility: internal\n"
        "as_of: 2019\ntrace_id: 77"
    )
    assert records("", context) == {
        ("subject", "version", "field", "3"),
        ("subject", "digest", "field", "0a1b2c3d"),
        ("workflow", "encoder", "is", "all-minilm-l6-v2"),
        ("scope", "any", "scope", "private"),
        ("time", "as_of", "is", "2019"),
        ("action", "response", "is", "answer"),
    }


def test_sentences_of_a_context() -> None:
    found = records("", "The write permission was revoked. Olivia Ito is not authorized to delete files.")
    assert ("auth", "write", "permission", "denied") in found
    assert ("auth", "delete", "permission", "denied") in found
    assert ("subject", "name", "is", "ito") in found  # the first word of a sentence is capitalised anyway
    assert ("fact", "write", "says", "permission revoked") in found


def test_a_request() -> None:
    assert records("Who had the most points for Utica as of July 18, 1960?") == {
        ("time", "as-of", "is", "1960-07-18"),
        ("subject", "name", "is", "utica"),
        ("fact", "most", "asks", "points utica 1960-07-18 who"),
        ("action", "response", "is", "answer"),
    }


def test_spelled_numbers_and_times_are_those_in_digits() -> None:
    assert records("Book a table for three people at half past 11 in the morning.") == {
        ("time", "clock", "is", "11:30"),
        ("fact", "number", "is", "3"),
        ("fact", "book", "asks", "table 3 people 11:30"),
        ("action", "response", "is", "answer"),
    }
    assert records("Book a table for 3 people at 11:30 am.") == records("book a table for three people at 11:30 a.m.")


def test_questions_and_conditions_assert_no_state() -> None:
    for query in ("Was my order delivered?", "If my order is delivered, call me.", "Is my access denied?"):
        assert not any(record[0] in ("tool", "auth") for record in records(query)), query
    assert ("tool", "order", "status", "delivered") in records("My order was delivered yesterday.")


@pytest.mark.parametrize(
    ("response", "action"),
    [
        ("I'm sorry, but I can’t help with that.", "refuse"),
        ("I am not able to share this.", "refuse"),
        ("I can not help with that.", "refuse"),
        ("I cant help with that.", "refuse"),
        ("Paris is the capital.", "answer"),
        ("", "nothing"),
    ],
)
def test_what_a_response_does(response: str, action: str) -> None:
    assert ("action", "response", "is", action) in records("Tell me something", "", response)


def test_a_question_for_confirmation_counts_where_it_was_called_for() -> None:
    asks = "Please confirm: cancel order #W1234?"
    assert ("action", "response", "is", "confirm") in records("Cancel it", "requires_confirmation: true", asks)
    assert ("action", "response", "is", "answer") in records("Cancel it", "", asks)


@pytest.mark.parametrize(
    "response", ["Error 503: service unavailable.", "TCP is a protocol that...", "It is [truncated]"]
)
def test_error_messages_and_stubs_are_failed_outcomes(response: str) -> None:
    assert ("tool", "response", "outcome", "failed") in records("Explain TCP", "", response)
    assert ("tool", "response", "outcome", "failed") not in records("Explain TCP", "", "TCP is a protocol.")


def test_a_response_adds_no_content_of_its_own() -> None:
    plain = records("Where is it?", "", "It is at 5 Main Street, call 408-247-8880 on 2019-03-08.")
    assert plain == records("Where is it?", "", "There.")


def test_json_and_lines_say_the_same() -> None:
    state = {"order": {"status": "pending", "tags": ["a", "b"], "gift": True}, "tenant": "Acme"}
    lines = "order.status: pending\norder.tags: a\norder.tags: b\norder.gift: true\ntenant: Acme"
    assert records("", json.dumps(state)) == records("", json.dumps(state, indent=2)) == records("", lines)


def test_text_that_only_looks_like_json_gives_its_pairs() -> None:
    broken = "{'tenant': 'Acme', \"order\": {\"status\": \"pending\", 'total': 12,"
    fields = split_text(broken + "}", load_lexicon(), any_key=True)
    assert fields == [Field(("tenant",), "Acme"), Field(("status",), "pending"), Field(("total",), "12")]


def test_several_fields_on_a_line_and_speakers() -> None:
    lexicon = load_lexicon()
    assert split_text("tenant: Acme; role: admin", lexicon, any_key=True) == [
        Field(("tenant",), "Acme"),
        Field(("role",), "admin"),
    ]
    assert split_text("User: Where is it? Tell me.", lexicon, any_key=True) == ["Where is it?", "Tell me."]
    assert split_text("user: mei_kovacs_8020", lexicon, any_key=True) == [Field(("user",), "mei_kovacs_8020")]
    assert split_text("Summarise: the text", lexicon, any_key=False) == ["Summarise: the text"]


@pytest.mark.parametrize("text", ["I {} see it", "{} you see it?", "It {} be late"])
@pytest.mark.parametrize(("short", "full"), [("can't", "can not"), ("cannot", "can not"), ("won’t", "will not")])
def test_ways_to_write_not_are_one(text: str, short: str, full: str) -> None:
    assert records(text.format(short), text.format(short)) == records(text.format(full), text.format(full))


def test_ids_in_running_text_and_pairs_on_a_line_are_fields() -> None:
    lexicon = load_lexicon()
    assert split_text("Charge acct=44-11.", lexicon, any_key=False) == [
        "Charge acct=44-11.",
        Field(("account",), "44-11"),
    ]
    assert split_text('tenant=acme, note="on hold" x=1', lexicon, any_key=True) == [
        Field(("tenant",), "acme"),
        Field(("note",), "on hold"),
        Field(("x",), "1"),
    ]
    assert split_text("Call sorted(rows, key=len)", lexicon, any_key=False) == ["Call sorted(rows, key=len)"]


def test_case_punctuation_and_quotes_do_not_matter() -> None:
    assert records("WHERE is my order", "Tenant: ACME") == records("where is my order?!", "tenant:  acme")
    assert records("I don’t want “it”") == records('I don\'t want "it"')


def test_records_are_sorted_distinct_single_words_and_limited() -> None:
    context = "\n".join(f"key{i}: value {i}" for i in range(500)) + "\ntenant: acme\ntenant: Acme"
    found = extract_conditions("hello there", context)
    assert list(found) == sorted(set(found))
    assert len(found) == MAX_CONDITIONS
    assert Condition("auth", "tenant", "is", "acme") in found
    assert all(category in HIGH_RISK | {"fact"} for category, *_ in found)
    assert all(part and " " not in part for condition in found for part in condition[:3])
    other = extract_conditions("hello there", context.replace("value 499", "value 500"))
    assert set(found) ^ set(other), "a change beyond the limit is still a change"


def test_nothing_gives_nothing() -> None:
    assert extract_conditions("", "") == extract_conditions(" \n", "...", None) == ()
    assert extract_conditions("", "", "") == ()


def test_origins_name_the_part_and_the_passage() -> None:
    found = extract_with_origins("Book for 7:15 pm. Thanks!", "slot.time: 19:15\ntenant: acme", "Access denied.")
    assert tuple(found) == extract_conditions(
        "Book for 7:15 pm. Thanks!", "slot.time: 19:15\ntenant: acme", "Access denied."
    )
    where = {condition: [(origin.part, origin.text) for origin in origins] for condition, origins in found.items()}
    assert where[Condition("auth", "tenant", "is", "acme")] == [("context", "tenant: acme")]
    assert where[Condition("time", "clock", "is", "19:15")] == [("query", "Book for 7:15 pm.")]
    assert where[Condition("auth", "any", "permission", "denied")] == [("response", "Access denied.")]
