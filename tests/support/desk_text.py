"""A short text of two rows in which one word is edited in place."""

from cachemend.repair_core import LoadedModel, StaleContext, replacement_from_texts

HEAD = "A note on gardens and water.\n\nThe open desk is "
ROWS = ". Who waits there is told below.\nThe red desk has Mara Quill.\nThe blue desk has Tom Reed.\n"
TAIL = " \nThe harbour was quiet. A red bicycle leaned there. The children counted boats on the river all day."


def desk_context(loaded: LoadedModel, new: str, rows: str = ROWS, old: str = "old") -> StaleContext:
    edit = replacement_from_texts(loaded.tokenizer, f"{HEAD}{old}{rows}{TAIL}", f"{HEAD}{new}{rows}{TAIL}")
    return StaleContext(loaded.model, loaded.tokenizer, edit, "Who waits?")
