"""Contradictions in what an answer is made with, ours: who is to answer, which model, which attachments.

They are flagged apart (``h_own``), so that their effect can be measured.
"""

import re
from functools import lru_cache

from cachemend.calibration.conditions.evidence import Clashes, Evidence, clash
from cachemend.calibration.conditions.lexicon import Lexicon
from cachemend.calibration.conditions.reading import Reading, Values

_PERSONA = re.compile(
    r"\b(?:you are|you're|act as|(?:answer|respond|reply|speak|talk|write) as)\s+(?:an?\s+|the\s+)([^.;!?\n]{1,200})",
    re.IGNORECASE,
)
_PERSONA_WORDS = frozenset({"you", "you're", "act", "answer", "respond", "reply", "speak", "talk", "write"})
_NAME_SIGNS = frozenset("0123456789-/_")  # a model's name has one of them: e5-small, gpt2
_MODEL_WORDS = frozenset({"embedding", "embeddings", "embedded", "encoder", "encoded", "model"})


def other_persona(evidence: Evidence) -> Clashes:
    """Both contexts say who is to answer ("You are a pirate."), and it is somebody else."""
    context, new_context = evidence.layers[1]
    if context is new_context or _PERSONA_WORDS.isdisjoint(context.words):
        return []
    before, now = _personas(context), _personas(new_context)
    return [clash(before, now)] if before and now and not before & now else []


def _personas(context: Reading) -> Values:
    return frozenset(" ".join(found.lower().split()) for found in _PERSONA.findall(context.text))


def other_model(evidence: Evidence) -> Clashes:
    """Both contexts have a sentence about a model or embeddings, and it names others."""
    context, new_context = evidence.layers[1]
    if context is new_context or _MODEL_WORDS.isdisjoint(context.words):
        return []
    before, now = _models(context), _models(new_context)
    return [clash(before, now)] if before and now and not before & now else []


def _models(context: Reading) -> Values:
    return frozenset(
        name
        for sentence in context.all_sentences
        if not _MODEL_WORDS.isdisjoint(sentence.words)
        for name in sentence.words
        if not _NAME_SIGNS.isdisjoint(name) and not name.isdecimal()
    )


def other_attachment(evidence: Evidence) -> Clashes:
    """The contexts name other images, recordings or files to answer from; digests count before names."""
    context, new_context = evidence.layers[1]
    if context is new_context:
        return []
    before, now = _attached(context, evidence), _attached(new_context, evidence)
    if before == now:
        return []
    ours, theirs = (frozenset(value for value, typed in side if typed == "digest") for side in (before, now))
    if ours and ours == theirs:
        return []
    return [clash((value for value, _ in before), (value for value, _ in now))]


def _attached(context: Reading, evidence: Evidence) -> frozenset[tuple[str, str]]:
    """Return values and types of the fields that name an attachment."""
    return frozenset(
        (found.record.value, found.record.typed)
        for found in context.fields
        if _names_attachment(found.field.path, evidence.lexicon)
    )


@lru_cache(maxsize=8192)
def _names_attachment(path: tuple[str, ...], lexicon: Lexicon) -> bool:
    kinds, leaf = lexicon.words["attachments"], path[-1]
    own = leaf, leaf.partition("_")[0], leaf.removeprefix("input_")
    return not kinds.isdisjoint(own) or (leaf in lexicon.words["attachment_names"] and not kinds.isdisjoint(path))
