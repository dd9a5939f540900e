"""What each policy selects on texts worked out by hand."""

import numpy as np
import pytest

from cachemend.repair_core import (
    LoadedModel,
    StaleContext,
    choose,
    load_model,
)
from cachemend.repair_core.policies import (
    POLICIES,
    get_policy,
)
from cachemend.repair_core.policies.blocks import block_stop
from cachemend.repair_core.policies.naming import edited_words, naming_unit
from cachemend.repair_core.policies.structural import is_delimiter

from support.desk_text import ROWS, desk_context
from support.given_edits import Given
from support.tiny_checkpoint import save_tiny


def test_delimiters_by_hand() -> None:
    yes = (".", " ;", "]}", "\n", "end.\n", "?!", "-", " *", "+", " •", "|", "12.", "3)")
    no = ("", "  ", "a.", "12", "--", "(", "[", "1.5", "- a", "..a")
    assert [text for text in (*yes, *no) if is_delimiter(text)] == list(yes)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load_model(str(save_tiny(tmp_path_factory.mktemp("tiny"))))


def _reached(context: StaleContext, name: str) -> str:
    positions = choose(name, context).positions
    assert positions.tolist() == list(range(context.pool[0], context.pool[0] + len(positions)))
    return loaded_text(context, positions)


def loaded_text(context: StaleContext, positions: np.ndarray) -> str:
    text, spans = context.edited_text
    return text[spans[positions[0]].start : spans[positions[-1]].stop]


def test_the_boundary_is_the_first_blank_line(loaded: LoadedModel) -> None:
    context = desk_context(loaded, "blue")
    assert _reached(context, "edit-local-boundary").endswith("Tom Reed.\n")
    text, spans = context.edited_text
    assert text[spans[block_stop(context)].start :].startswith(" \nThe harbour")
    last = desk_context(loaded, "blue", ROWS.rstrip("\n"))
    assert block_stop(last) == len(last.deletion.edited_ids)
    assert choose("edit-local-boundary", last).positions.tolist() == last.pool.tolist()
    # The edit writes white space into a blank line: that line ends the block.
    blank = Given(["a", "\n", " ", "\n", "b", "\n", "\n", "c"], 2, 3).context
    assert choose("edit-local-boundary", blank).positions.size == 0


def test_edit_to_carrier_reaches_the_unit_that_names_the_new_words(loaded: LoadedModel) -> None:
    assert _reached(desk_context(loaded, "blue"), "edit-to-carrier").endswith("Tom Reed.\n")
    assert _reached(desk_context(loaded, "RED"), "edit-to-carrier").endswith("Mara Quill.\n")
    assert _reached(desk_context(loaded, "blue desk"), "edit-to-carrier").endswith("Tom Reed.\n")
    # Beyond the block.
    beyond = desk_context(loaded, "bicycle")
    unit = naming_unit(beyond)
    assert unit is not None
    assert unit.start > block_stop(beyond) - 1
    assert "bicycle" in loaded_text(beyond, np.arange(*unit))
    assert choose("edit-to-carrier", beyond).positions[-1] == unit.stop - 1
    # Named nowhere, or only inside longer words: the block.
    for new in ("lost", "ed", "boat"):
        nowhere = desk_context(loaded, new)
        assert naming_unit(nowhere) is None
        assert choose("edit-to-carrier", nowhere).positions[-1] == block_stop(nowhere) - 1


def test_parts_of_words_stand_for_the_whole_word(loaded: LoadedModel) -> None:
    rows = ROWS.replace("red", "Belmar").replace("blue", "Beltov")
    context = desk_context(loaded, "Beltov", rows, old="Belmar")
    written = loaded.tokenizer.decode(context.deletion.edited_ids[context.deletion.prefix_length :][:1])
    assert not written.strip().startswith("Bel"), "the tokenizer splits the word, and only its end changes"
    assert edited_words(context) == "Beltov"
    assert _reached(context, "edit-to-carrier").endswith("Tom Reed.\n")
    blank = desk_context(loaded, "  ")
    assert edited_words(blank) == ""
    assert naming_unit(blank) is None


@pytest.mark.parametrize("name", POLICIES)
def test_policies_on_a_real_text(loaded: LoadedModel, name: str) -> None:
    for new in ("blue", "a quiet room by the river", "x"):
        chosen = choose(name, context := desk_context(loaded, new), 8).positions
        assert set(chosen) <= set(context.pool)
        assert get_policy(name).own_length or len(chosen) == 8
        for signal in get_policy(name).signals:
            assert context.timings[signal.value] >= 0
