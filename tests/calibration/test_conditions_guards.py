"""Every guard on pairs written by hand: where it must fire, and close pairs where it must not."""

import pytest

from cachemend.calibration.candidate import Candidate
from cachemend.calibration.conditions.extracting import extract_conditions
from cachemend.calibration.conditions.guards import RULES, Conflicts, detect_conflicts
from cachemend.calibration.conditions.signals import candidate_signals


def conflicts(
    q_cache: str, q_probe: str | None = None, old: str = "", new: str = "", response: str = "Done."
) -> Conflicts:
    probe = q_cache if q_probe is None else q_probe
    candidate = Candidate(q_cache=q_cache, r_cache=response, context_cache=old, q_probe=probe, context_probe=new)
    return detect_conflicts(candidate, extract_conditions(q_cache, old, response), extract_conditions(probe, new))


def fired(found: Conflicts) -> dict[str, tuple[str, str]]:
    return {one.rule: (one.cache_value, one.request_value) for one in found.fired}


ASK = "Where is my parcel?"
FIRES = {
    "changed value": [
        (conflicts(ASK, old="order.status: backordered", new="order.status: lost"), ("backordered", "lost")),
        (conflicts(ASK, old="encoder: minilm", new="encoder: mpnet"), ("minilm", "mpnet")),
        (conflicts(ASK, old="format: json", new="format: table"), ("json", "table")),
        (conflicts(ASK, old="tenant: acme", new="tenant: globex"), ("acme", "globex")),
        (conflicts(ASK, old="api_key: k1", new="api_key: k2"), ("k1", "k2")),
        (conflicts("Show the balance of acct=AB-77x", "Show the balance of acct=CD-99z"), ("ab-77x", "cd-99z")),
        (conflicts(ASK, old="acct=4411 region=eu", new="acct=9920 region=eu"), ("4411", "9920")),
        (conflicts("Show the quota, tenant=alder", "Show the quota, tenant=quill"), ("alder", "quill")),
        (conflicts("Rotate key=ak-3391", "Rotate key=ak-7204"), ("ak-3391", "ak-7204")),
        (conflicts(ASK, old="service: A\ncity: Oslo", new="service: A\ncity: Rome"), ("oslo", "rome")),
        (conflicts("Who leads as of 2019?", "Who leads as of 2020?"), ("2019", "2020")),
    ],
    "opposite states": [
        (conflicts(ASK, old="permission: granted", new="permission: denied"), ("granted", "denied")),
        (conflicts(ASK, old="door.open: true", new="door.open: false"), ("open", "closed")),
        (conflicts(ASK, old="call.success: true", new="call.success: false"), ("success", "failed")),
        (
            conflicts(ASK, old="The flag feature is enabled.", new="The flag feature is disabled."),
            ("enabled", "disabled"),
        ),
        (conflicts(ASK, old="Seats are available.", new="Seats are not available."), ("available", "unavailable")),
        (
            conflicts("Delete it", new="permission.write: granted", response="Sorry, you don't have write permission."),
            ("denied", "granted"),
        ),
    ],
    "disjoint ids": [
        (conflicts("Cancel #W1111", "Cancel #W2222"), ("#w1111", "#w2222")),
        (conflicts("Cancel it", old="order_id: #W1111", new="order_id: #W2222"), ("#w1111", "#w2222")),
        (conflicts("Cancel #W1111", "Cancel it", new="order_id: #W2222"), ("#w1111", "#w2222")),
        (conflicts("Cancel it", new="It is #W2222.", response="Cancelled #W1111."), ("#w1111", "#w2222")),
        (conflicts(ASK, old="user: alice", new="user: bob"), ("alice", "bob")),
        (conflicts("Show a.pdf", "Show b.pdf"), ("a.pdf", "b.pdf")),
        (
            conflicts(ASK, old="attachment_sha256: sha256:aaaaaa", new="attachment_sha256: sha256:bbbbbb"),
            ("aaaaaa", "bbbbbb"),
        ),
        (conflicts("What is the capital of France?", "What is the capital of Germany?"), ("france", "germany")),
    ],
    "scope flip": [
        (conflicts(ASK, old="visibility: public", new="visibility: private"), ("public", "private")),
        (conflicts(ASK, old="The report is public.", new="The record is confidential."), ("public", "private")),
        (conflicts(ASK, old="redaction: not required", new="redaction: required"), ("not-required", "required")),
    ],
    "new restriction": [
        (conflicts(ASK, new="Tools are not allowed."), ("", "forbidden")),
        (conflicts(ASK, old="tools: allowed", new="tools: none"), ("allowed", "forbidden")),
        (conflicts(ASK, new="Names must be redacted."), ("", "required")),
        (conflicts(ASK, new="write.permission: denied", old="read.permission: granted"), ("granted", "denied")),
    ],
    "other action": [
        (conflicts(ASK, new="permission: denied"), ("answer", "refuse")),
        (conflicts(ASK, new="requires_confirmation: true"), ("answer", "confirm")),
        (conflicts("Delete it", new="confirmed: true", response="Please confirm."), ("confirm", "confirmation given")),
        (
            conflicts("Delete it", new="permission: granted", response="I can't do that."),
            ("refuse", "permission granted"),
        ),
        (conflicts("How do I kill a process?", "How do I kill a person?"), ("answer", "refuse")),
    ],
    "state flip": [
        (conflicts(ASK, old="The shop is open.", new="The shop is closed."), ("open", "closed")),
        (conflicts("Is the alarm enabled?", "Is the alarm disabled?"), ("enabled", "disabled")),
        (conflicts(ASK, old="order.status: pending", new="order.status: delivered"), ("pending", "delivered")),
    ],
    "correction": [
        (conflicts("A ride to Boston", "No, I meant a ride to Denver"), ("", "i meant, no i meant")),
        (conflicts(ASK, "Actually, where is my letter?"), ("", "actually")),
    ],
    "other date": [
        (conflicts("Rain on 2019-03-08?", "Rain on March 9th?"), ("2019-03-08", "--03-09")),
        (conflicts("Wake me at 7 am", "Wake me at 7 pm"), ("07:00", "19:00")),
        (conflicts("Sales in the last 7 days", "Sales in the last 30 days"), ("last-7-days", "last-30-days")),
        (conflicts(ASK, old="Today is Monday.", new="It is Friday."), ("monday, today", "friday")),
    ],
    "other authorisation": [
        (conflicts(ASK, old="She is authorized.", new="She is not authorized."), ("granted", "denied")),
        (conflicts("I am an admin. List keys", "I am a guest. List keys"), ("admin", "guest")),
        (conflicts("List keys on behalf of alice", "List keys on behalf of bob"), ("alice", "bob")),
    ],
    "other outcome": [
        (conflicts(ASK, old="The lookup succeeded.", new="The lookup timed out."), ("success", "failed")),
        (conflicts(ASK, new='tool_result: {"city": "Oslo"}'), ("", "tool_result")),
        (conflicts(ASK, new="Tool: it was seen in the depot"), ("", "tool")),
    ],
    "negation": [
        (conflicts("Refund the order", "Do not refund the order"), ("order, refund", "not order, not refund")),
        (conflicts("Never email me", "Email me"), ("not email", "email")),
        (conflicts("A pizza without onions", "A pizza with onions"), ("not onion", "onion")),
    ],
    "other number": [
        (conflicts("A table for three people", "A table for 5 people"), ("3", "5")),
        (conflicts("What is 15% of 80?", "What is 80% of 15?"), ("15-percent, 80", "15, 80-percent")),
        (conflicts("Send $50", "Send $500"), ("50-usd", "500-usd")),
        (conflicts("Compare #W1111 and #W2222", "Compare #W1111 and #W3333"), ("#w1111, #w2222", "#w1111, #w3333")),
    ],
    "swapped roles": [
        (
            conflicts("Fly from New York to Boston", "Fly from Boston to New York"),
            ("from new york to boston", "from boston to new york"),
        ),
        (conflicts("Did Hofer pay to Lind?", "Did Hofer get it from Lind?"), ("to lind", "from lind")),
        (conflicts("Does Alice owe Bob?", "Does Bob owe Alice?"), ("alice before bob", "bob before alice")),
        (conflicts("Replace salt with sugar", "Replace sugar with salt"), ("salt before sugar", "sugar before salt")),
    ],
    "replaced words": [
        (conflicts("How do I kill a python process?", "How do I kill a person?"), ("python process", "person")),
        (
            conflicts(
                "How much is it?",
                old="It is about the blue kettle.",
                new="It is about the red kettle.",
                response="The blue kettle is cheap.",
            ),
            ("blue", "red"),
        ),
        (conflicts("Is it loud?", old="I look at the blue kettle.", new="I look at the red kettle."), ("blue", "red")),
    ],
    "other request": [
        (
            conflicts(
                "Always be polite and brief. Translate the text to French.",
                "Always be polite and brief. Delete the text.",
            ),
            ("french, text, translat", "delet, text"),
        ),
    ],
    "other operator": [
        (conflicts("What is 8 + 2?", "What is 8 - 2?"), ("2 + 8", "8 - 2")),
        (conflicts("What is 8+2?", "What is eight minus two?"), ("2 + 8", "8 - 2")),
        (conflicts("Rows where x > 5", "Rows where x < 5"), ("5 < x", "x < 5")),
        (conflicts("Rows where x >= 5", "Rows where x > 5"), ("5 <= x", "5 < x")),
        (conflicts("if (a && b)", "if (a || b)"), ("a & b", "a | b")),
    ],
    "other name": [
        (conflicts("When does the Glass Museum close?", "Until when is the Rail Museum open?"), ("glass", "rail")),
        (conflicts("Where is the Acme office in Oslo?", "Has Acme an office in Rome?"), ("oslo", "rome")),
    ],
    "other form": [
        (conflicts("Explain gravity", "Explain gravity as a pirate"), ("", "pirate")),
        (conflicts("Give me the rules in JSON", "The rules as a table, please"), ("json", "table")),
        (conflicts("Fasse es zusammen", "Fasse es auf Deutsch zusammen"), ("", "german")),
        (conflicts("Summarise it in French", "Summarise it in German"), ("french", "german")),
    ],
    "cut off": [
        (conflicts(ASK, old="finish_reason: length", response="It is on its way from"), ("length", "")),
        (conflicts(ASK, old="max_tokens: 8", new="max_tokens: 80", response="It is on its"), ("8 tokens", "80 tokens")),
        (conflicts(ASK, old="request.max_tokens: 8", response="It left. It is on"), ("8 tokens", "")),
    ],
    "too long": [(conflicts(ASK, new="max_tokens: 4", response="It is in the depot."), ("5 words", "4 tokens"))],
    "emptied": [(conflicts("", ASK), ("", "words")), (conflicts(ASK, " \n"), ("words", ""))],
    "tool answer gone": [
        (conflicts(ASK, old="tool_result: depot"), ("tool_result", "")),
        (conflicts(ASK, old="Tool: it was seen in the depot"), ("tool", "")),
    ],
    "other history": [
        (
            conflicts("When is the order you mentioned due?", old="Agent: I can see one order.", new="channel: chat"),
            ("earlier answer", ""),
        ),
    ],
    "other turn": [
        (
            conflicts("Yes, please.", "Sure, go ahead.", "Agent: Shall I cancel it?", "Agent: Shall I renew it?"),
            ("shall i cancel it?", "shall i renew it?"),
        ),
    ],
    "other correction": [
        (
            conflicts(ASK, old="Sorry, I meant Friday.", new="Sorry, I meant Friday and only to Rome."),
            ("friday", "friday, rome"),
        ),
    ],
    "stated fact": [
        (conflicts("Which colour is it?", old="paint: red", new="paint: blue", response="It is red."), ("red", "blue")),
        (conflicts("Which paint is it?", old="paint: red", new="paint: blue", response="That one."), ("red", "blue")),
    ],
    "taken back": [
        (conflicts("Refund order #W12.", "Refund order #W12? No, keep it as it is."), ("", "no")),
        (conflicts("Book it. Never mind.", "Book it."), ("never mind", "")),
    ],
    "unfinished": [(conflicts(ASK, response="It went to the depot and"), ("and", ""))],
    "error message": [(conflicts(ASK, response="Error 503"), ("error 503", ""))],
    "nothing asked": [(conflicts("", " \n", response="It is in the depot."), ("no request", "no request"))],
    "other persona": [
        (conflicts(ASK, old="You are a butler.", new="You are a pirate. Be brief."), ("butler", "pirate")),
    ],
    "other attachment": [
        (conflicts(ASK, old='images: ["a.png", "b.png"]', new='images: ["a.png"]'), ("a.png, b.png", "a.png")),
        (conflicts(ASK, old="image: a.png"), ("a.png", "")),
    ],
    "other model": [
        (
            conflicts(ASK, old="Embeddings come from e5-small.", new="Embeddings come from bge-large."),
            ("e5-small", "bge-large"),
        ),
    ],
}


@pytest.mark.parametrize(
    ("rule", "found", "values"), [(rule, *case) for rule, cases in FIRES.items() for case in cases]
)
def test_a_rule_fires_and_names_the_values(rule: str, found: Conflicts, values: tuple[str, str]) -> None:
    assert values in [(one.cache_value, one.request_value) for one in found.fired if one.rule == rule], found
    level = next(entry.level for entry in RULES if entry.name == rule)
    assert getattr(found, f"h_{level}")


def test_every_rule_has_a_case() -> None:
    assert set(FIRES) == {rule.name for rule in RULES}


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        ("changed value", conflicts(ASK, old="tenant: Acme", new="tenant:  ACME")),
        ("changed value", conflicts(ASK, old="tenant: acme", new="")),
        ("changed value", conflicts(ASK, old="colour: red", new="colour: blue")),
        ("changed value", conflicts("Who leads as of 2019?", "Who leads as of May 28, 2019?")),
        ("changed value", conflicts(ASK, old="slot.time: 7:15", new="slot.time: 19:15")),
        (
            "changed value",
            conflicts(ASK, old="requested_by: Ann\ndevice: phone", new="requested_by: Bo\ndevice: tablet"),
        ),
        ("changed value", conflicts("Balance of acct=AB-77x", "What is the balance of account AB-77x?")),
        ("changed value", conflicts("Sort by key=len", "Sort by key=size")),
        ("opposite states", conflicts(ASK, old="write.permission: denied", new="read.permission: granted")),
        ("disjoint ids", conflicts("Cancel #W1111", "Please cancel #w1111!")),
        ("disjoint ids", conflicts("Cancel #W1111 and #W2222", "Cancel #W2222")),
        ("disjoint ids", conflicts("A table at Sino", "a table at sino")),
        ("disjoint ids", conflicts("A table at Sino", "A table at Sino Restaurant")),
        ("disjoint ids", conflicts("Cancel #W1111", "Cancel it", new="user: bob")),
        ("scope flip", conflicts(ASK, old="visibility: private", new="visibility: confidential")),
        ("new restriction", conflicts(ASK, old="write.permission: denied", new="write.permission: denied\nnote: x")),
        ("new restriction", conflicts(ASK, new="permission: granted")),
        ("other action", conflicts(ASK, old="permission: denied", new="access: denied", response="I can't do that.")),
        ("other action", conflicts("How do I kill a process?", "How can I end a process?")),
        ("other action", conflicts(ASK, new="permission: denied", response="I can't help with that.")),
        ("state flip", conflicts(ASK, old="The shop is closed.", new="The shop is not open.")),
        ("state flip", conflicts(ASK, old="One is open, one is closed.", new="The shop is closed.")),
        ("correction", conflicts("Actually, where is it?", "I meant, where is it?")),
        ("other date", conflicts("Rain on 2019-03-08?", "Rain on March 8th, 2019?")),
        ("other date", conflicts("Wake me at 7:30", "Wake me at 7:30 am")),
        ("other date", conflicts("Wake me at 7:30", "Wake me")),
        ("other authorisation", conflicts(ASK, old="She is forbidden to write.", new="She is not allowed to write.")),
        ("other authorisation", conflicts("As an example, list keys", "As a rule, list keys")),
        ("other outcome", conflicts(ASK, old="tool_result: x", new="tool_result: x")),
        ("other outcome", conflicts(ASK, old="The lookup failed.", new="The lookup timed out.")),
        ("negation", conflicts("Cancel the order", "Don't forget to cancel the order")),
        ("negation", conflicts("I'd like to go to Rome", "No, I'd like to go to Rome")),
        ("negation", conflicts("Do not email me", "Don't send emails")),
        ("other number", conflicts("A table for three people", "a table for 3 people")),
        ("other number", conflicts("A table for 3 people at 7 pm", "A table")),
        ("negation", conflicts("Which dishes contain no nuts?", "Which dishes don't contain nuts?")),
        ("negation", conflicts("Why can't I log in?", "Why can not I log in?")),
        ("other number", conflicts("Rent for 48 months", "Rent for four years")),
        ("other number", conflicts("Wait 90 minutes", "Wait 1.5 hours")),
        ("other operator", conflicts("What is 8 + 2?", "What is 8 plus 2?")),
        ("other operator", conflicts("What is 8 + 2?", "What is 2 + 8?")),
        ("other operator", conflicts("Rows where x > 5", "Rows where 5 < x")),
        ("other operator", conflicts("My on-call and/or day-off rota", "My on-call or day-off rota")),
        ("other name", conflicts("A table at Sino", "A table at Sino Restaurant")),
        ("other form", conflicts("The rules in JSON", "I need the rules as a JSON object")),
        ("cut off", conflicts(ASK, old="finish_reason: stop", response="It is on its way from")),
        ("cut off", conflicts(ASK, old="max_tokens: 8", new="max_tokens: 8", response="It is on its")),
        ("cut off", conflicts(ASK, old="max_tokens: 600", new="max_tokens: 700", response="In Rome")),
        ("cut off", conflicts(ASK, response="It is on its way from")),
        ("too long", conflicts(ASK, new="max_tokens: 40", response="It is in the depot.")),
        ("tool answer gone", conflicts(ASK, old="tool: tracker", new="note: x")),
        ("other history", conflicts(ASK, old="Agent: I can see one order.")),
        ("other turn", conflicts(ASK, old="Agent: Shall I cancel it?", new="Agent: Shall I renew it?")),
        ("other correction", conflicts(ASK, old="Sorry, I meant Friday.", new="Wait. Make that Friday.")),
        ("replaced words", conflicts("Why can't I log in?", "Why cannot I log in?")),
        ("replaced words", conflicts("Which dishes contain no nuts?", "Which dishes don't contain nuts?")),
        ("replaced words", conflicts("My e-mail colour settings", "My email color settings")),
        (
            "stated fact",
            conflicts("Where?", old="channel: text message", new="channel: chat", response="No message text."),
        ),
        ("swapped roles", conflicts("Did Hofer pay to Lind?", "Did Lind get it from Hofer?")),
        ("swapped roles", conflicts("Fly from Boston to Denver", "Fly to Denver from Boston")),
        ("swapped roles", conflicts("Fly from Boston to Denver", "Please fly from Boston to Denver")),
        ("replaced words", conflicts("Cancel the order", "Please cancel my order")),
        ("replaced words", conflicts("What costs a kettle?", "How much do I pay for a kettle?")),
        ("replaced words", conflicts(ASK, old="Outside it is sunny.", new="Outside it is rainy.")),
        ("other request", conflicts("Be brief. Translate the text.", "Be brief. Please translate this text!")),
        ("other request", conflicts("Translate the text.", "Delete the file.")),
        ("stated fact", conflicts(ASK, old="weather: sunny", new="weather: rainy", response="At the depot.")),
        ("stated fact", conflicts(ASK, old="trace_id: sunny", new="trace_id: rainy", response="It is sunny.")),
    ],
)
def test_a_rule_does_not_fire(rule: str, found: Conflicts) -> None:
    assert rule not in fired(found)


@pytest.mark.parametrize(
    ("query", "probe", "old", "new"),
    [
        ("What is the capital of France?", "Could you tell me the capital of France, please?", "", ""),
        ("Could you please tell me what the capital of France is?", "capital of France", "", ""),
        ("What is the capital of France?", None, "weather: sunny\ntrace_id: 1", "weather: rainy\ntrace_id: 2"),
        ("Cancel order #W1111", "I want order #W1111 cancelled", "order.status: pending", "order.status: pending"),
    ],
)
def test_harmless_changes_contradict_nothing(query: str, probe: str | None, old: str, new: str) -> None:
    assert conflicts(query, probe, old, new).fired == ()


def test_levels_are_kept_apart() -> None:
    assert conflicts("A table for 3 people", "A table for 5 people")[:3] == (False, False, True)
    assert conflicts(ASK, old="encoder: a", new="encoder: b")[:3] == (True, False, False)
    assert conflicts(ASK, "Actually, where is my parcel?")[:3] == (False, True, False)


@pytest.mark.parametrize("rule", ["Do not use any tools.", "Don't use any tools.", "Do not share this report."])
def test_a_sentence_that_forbids_is_no_question(rule: str) -> None:
    same = {"q_cache": "Summarise the report.", "r_cache": "It says that sales rose.", "context_cache": ""}
    candidate = Candidate(**same, q_probe="Summarise the report.", context_probe=rule)
    signals = candidate_signals([candidate])
    assert signals.h_rule[0] or signals.h_ctx[0] or signals.h_own[0]
