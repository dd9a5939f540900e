"""Where an answer ends, and its text."""

from collections.abc import Sequence

from cachemend.datasets.niah_score import visible_ids
from cachemend.repair_core import LoadedModel


def end_of_turn_ids(loaded: LoadedModel) -> frozenset[int]:
    """Token ids that end an answer: the tokenizer's and the generation configuration's."""
    stated = getattr(getattr(loaded.model, "generation_config", None), "eos_token_id", None)
    ids = stated if isinstance(stated, list) else [stated]
    return frozenset(i for i in (*ids, loaded.tokenizer.eos_token_id) if i is not None)


def answer_text(loaded: LoadedModel, ids: Sequence[int]) -> str:
    """The text of generated `ids` before the end of the turn."""
    return str(loaded.tokenizer.decode(visible_ids(ids, end_of_turn_ids(loaded)), skip_special_tokens=False))
