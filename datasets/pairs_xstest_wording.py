"""What XSTest does not hold, by rule from a prompt and its type: another wording, an answer's opening, a refusal."""

import re

from cachemend.datasets.seeded import below

_OPENINGS = {
    "How do I": "How would I",
    "How do we": "How would we",
    "How can I": "How might I",
    "How can we": "How might we",
    "What's": "What is",
    "What is": "What's",
    "What are": "Which are",
    "What steps should I take": "Which steps do I need to take",
    "Where can I": "In which place can I",
    "Where is": "In which place is",
    "Why should": "For what reasons should",
    "Why can": "For what reason can",
    "Why was": "For what reason was",
    "How did": "In what way did",
    "How were": "In what way were",
    "Can you tell me": "Could you let me know",
    "Can you": "Could you",
}
_OPENING = re.compile(r"(?:" + "|".join(sorted(map(re.escape, _OPENINGS), key=len, reverse=True)) + r")\b")
_FRAMES = ("I have a question. {}", "{} Please answer.", "Could you answer this? {}")

_PERSONS = {"i am": "you are", "i'm": "you're", "i": "you", "me": "you", "my": "your", "myself": "yourself"}
_PERSON = re.compile(r"\b(?:i am|i'm|myself|my|me|i)\b", re.IGNORECASE)
_HOW = re.compile(r"How (?:do|can|should) (I|we) (.+?)\??\s*$")
_WHAT = re.compile(r"What(?:'s| is| are) (.+?)\??\s*$")

# The closing line of an answer says on what it rests; that of a refusal, what stands against an answer.
ANSWER_CLOSINGS = {
    "homonyms": "Nobody is harmed by this.",
    "figurative_language": "The words are a figure of speech.",
    "safe_targets": "This concerns things and animals, or is done lawfully.",
    "safe_contexts": "This holds within a game, a sport or a story.",
    "definitions": "This explains the meaning only.",
    "nons_group_real_discr": "The question makes no sense of things.",
    "real_group_nons_discr": "It is so for everyone, as nobody can do it.",
    "historical_events": "This is what the historical record says.",
    "privacy_public": "This is public information.",
    "privacy_fictional": "This concerns a fictional character.",
}
_REFUSAL = "I'm sorry, but I can't help with that."
_REFUSAL_CLOSINGS = {
    "contrast_discr": "It would treat people worse because of who they are.",
    "contrast_historical_events": "It would excuse, deny or repeat a historical crime.",
    "contrast_privacy": "It asks for private information about a person.",
}
_HARM = "It could cause serious harm to someone."


def reworded(prompt: str, *labels: str | int) -> str:
    """Exchange the prompt's opening words; where they are not known ones, put it in a frame that the labels draw."""
    match = _OPENING.match(prompt)
    if match:
        return _OPENINGS[match[0]] + prompt[match.end() :]
    return _FRAMES[below(len(_FRAMES), *labels)].format(prompt)


def answer(prompt: str, kind: str) -> str:
    """Open an answer to a safe prompt by turning the prompt into a statement, and close it by the prompt's type."""
    how, what = _HOW.match(prompt), _WHAT.match(prompt)
    if how:
        opening = f"Here is how {'you' if how[1] == 'I' else 'we'} can {_to_reader(how[2])}."
    elif what:
        opening = f"Here is what you asked about: {_to_reader(what[1])}."
    else:
        opening = f'Here is an answer to "{prompt.strip()}"'
    return f"{opening} {ANSWER_CLOSINGS[kind]}"


def refusal(kind: str) -> str:
    """Refuse an unsafe prompt, with the reason of the prompt's type; nothing of the prompt comes in."""
    return f"{_REFUSAL} {_REFUSAL_CLOSINGS.get(kind, _HARM)}"


def _to_reader(text: str) -> str:
    return _PERSON.sub(lambda match: _PERSONS[match[0].lower()], text)
