"""One difference among many equal fields, or an answer that must not be repeated: what the match alone lets through."""

import time

import pytest

from cachemend.calibration.conditions import Conflicts, prepare_entry, score_request

EQUAL = "\n".join(f"field{i}: value {i}" for i in range(12))
ASK, ANSWER = "What is shown here?", "A red car stands in the yard."
LONG = "We ship every order within two days and we tell you by letter or e-mail once it leaves"


def conflicts(
    old: str = "", new: str = "", query: str = ASK, probe: str | None = None, answer: str = ANSWER
) -> Conflicts:
    entry = prepare_entry(query, answer, f"{old}\n{EQUAL}")
    return score_request(entry, query if probe is None else probe, f"{new}\n{EQUAL}").conflicts


def names(found: Conflicts) -> set[str]:
    return {one.rule for one in found.fired}


@pytest.mark.parametrize("key", ["image", "photo", "picture", "attachment", "file", "document", "audio", "screenshot"])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("sha256:aa11", "sha256:cc33"),
        ("img_0042.png", "img_0043.png"),
        ("https://x.example/1.png", "https://x.example/2.png"),
    ],
)
def test_another_attachment_is_a_conflict(key: str, old: str, new: str) -> None:
    assert conflicts(f"{key}: {old}", f"{key}: {new}").h_rule
    assert not conflicts(f"{key}: {old}", f"{key}: {old}").fired


def test_an_attachment_is_known_by_its_digest_and_its_other_fields_do_not_count() -> None:
    digest = "\nattachment.sha256: 5be0c1f7a94d"
    renamed = conflicts(f"attachment: a.png{digest}", f"attachment: b.png{digest}")
    assert "other attachment" not in names(renamed)
    assert not conflicts("image: a.png\nimage.width: large", "image: a.png\nimage.width: small").h_own
    assert not conflicts(new="open_files: 3").fired


@pytest.mark.parametrize(
    "limits", [("", ""), ("max tokens: 8", "max tokens: 800"), ("max_tokens: 900", "max_tokens: 900")]
)
@pytest.mark.parametrize(
    "answer",
    [
        "The report covers three areas: revenue,",
        "The areas are:",
        "It covers revenue;",
        "revenue...",
        "It is about revenue…",
        "It covers revenue -",
        "costs and",
        "It went to the",
        "It was sent from",
    ],
)
def test_an_answer_that_breaks_off_is_a_conflict(answer: str, limits: tuple[str, str]) -> None:
    assert "unfinished" in names(conflicts(*limits, answer=answer))


@pytest.mark.parametrize(
    "answer",
    [
        *("42", "Yes", "Paris", "A-", "AB-", "It is on its way.", "It is switched on", "(see above:)"),
        *(
            "- apples\n- pears,\n- plums;",
            "1. apples\n2. pears,",
            '{"a": [1, 2]}',
            "int mid = low + high;",
            "for x in y:\n  f(x):",
        ),
        LONG,
    ],
)
def test_an_answer_that_is_short_or_a_list_or_code_is_whole(answer: str) -> None:
    assert "unfinished" not in names(conflicts(answer=answer))


def test_a_long_answer_without_an_end_is_cut_off_where_there_is_a_limit() -> None:
    assert "unfinished" in names(conflicts("max tokens: 18", "max tokens: 400", answer=LONG))
    assert "unfinished" in names(conflicts("max tokens: 18", answer=LONG))
    assert not conflicts("max tokens: 18", "max tokens: 18", answer=LONG).fired
    assert not conflicts("max tokens: 18", "max tokens: 18", answer="It is in the depot").fired


@pytest.mark.parametrize(
    "answer",
    [
        *("Error 503", "HTTP 500", "503 Service Unavailable", "Error: could not load", "Internal server error"),
        *("Traceback (most recent call last)", "Sorry, something went wrong on our side.", "request timed out"),
        *("The upstream server did not respond in time.", "rate limit exceeded", "service unavailable"),
    ],
)
def test_an_error_is_never_repeated(answer: str) -> None:
    assert "error message" in names(conflicts(answer=answer))


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        (ASK, "Error 503 means that the server is overloaded."),
        (ASK, "The log shows 'request timed out' at noon."),
        ("What is the text of HTTP error 503?", "Service unavailable"),
        (ASK, "Order 503 is unavailable until May."),
        (ASK, "The page of the order says that your parcel was returned, as a request timed out."),
    ],
)
def test_an_answer_about_errors_is_none(query: str, answer: str) -> None:
    assert "error message" not in names(conflicts(query=query, answer=answer))


@pytest.mark.parametrize(
    ("query", "probe"),
    [
        ("Refund order #W12.", "Refund order #W12? No, keep it as it is."),
        ("Refund order #W12.", "Refund order #W12? No."),
        ("Refund order #W12.", "Refund order #W12. Forget it."),
    ],
)
def test_a_request_that_is_taken_back_is_a_conflict(query: str, probe: str) -> None:
    assert "taken back" in names(conflicts(query=query, probe=probe))


@pytest.mark.parametrize(
    ("query", "probe"),
    [
        ("Is it late?", "Is it late? No idea, tell me."),
        ("Is it late?", "No hurry: is it late?"),
        ("Late? No, early?", "Late? No - early?"),
        ("Keep it as it is.", "Please leave it as it is."),
    ],
)
def test_other_uses_of_no_take_nothing_back(query: str, probe: str) -> None:
    assert "taken back" not in names(conflicts(query=query, probe=probe))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("persona: formal assistant", "persona: pirate"),
        ("role: formal assistant", "role: pirate"),
        ("system prompt: You are formal.", "system prompt: You are a pirate."),
        ("system: You are a formal assistant.", "system: You are a pirate."),
        ("embedding: e5", "embedding: bge"),
        ("embedding_model: e5", "embedding_model: bge"),
        ("model: e5-small", "model: bge-large"),
        ("Embeddings come from e5-small.", "Embeddings come from bge-large."),
        ("max tokens: 800", "max tokens: 4"),
        ("max_tokens: 800 tokens", "max_tokens: 4 tokens"),
    ],
)
def test_another_persona_model_or_limit_is_a_conflict(old: str, new: str) -> None:
    assert conflicts(old, new).fired
    assert not conflicts(old, old).fired


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("You are an assistant.", "system: You are the assistant."),
        ("Embeddings come from e5-small.", "We use e5-small embeddings."),
        ("The encoder ran at noon.", "The encoder has run."),
        ("max tokens: 800", "max tokens: 400"),
    ],
)
def test_the_same_persona_or_model_in_other_words_is_none(old: str, new: str) -> None:
    assert not names(conflicts(old, new)) & {"other persona", "other model", "too long"}


def test_no_request_at_all() -> None:
    assert conflicts(query=ASK, probe=" \n").h_own
    assert conflicts(query="", probe="\t", answer=ANSWER).h_own
    assert not conflicts(query="", probe=" ", answer="Your message was empty. What do you need?").h_own


@pytest.mark.parametrize("answer", ["a" * 40_000, "- " * 20_000, "a, " * 13_000, "model a_b-" * 4_000, "no? " * 10_000])
def test_long_answers_take_little_time(answer: str) -> None:
    start = time.process_time()
    conflicts(answer, answer + " x", answer, answer + " y", answer)
    assert time.process_time() - start < 4.0
