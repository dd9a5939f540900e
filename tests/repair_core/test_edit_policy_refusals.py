"""What the choice of positions refuses, by value and by type."""

import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from torch import nn

from cachemend.repair_core import (
    InputError,
    LoadedModel,
    RepairContext,
    Replacement,
    StaleContext,
    Tokens,
    choose,
    load_model,
    repair,
)
from cachemend.repair_core.caches import plain_cache
from cachemend.repair_core.intervals import Interval
from cachemend.repair_core.policies import (
    Truth,
    diagnose,
)

from support.desk_text import desk_context
from support.tiny_checkpoint import save_tiny
from support.tiny_models import BY_NAME, VOCABULARY, build

IDS = np.random.default_rng(9).integers(3, VOCABULARY, 60).tolist()
IN_PLACE = Replacement(original_ids=IDS, start=14, stop=17, replacement_ids=[7, 8, 9])
QUERY = (5, 6, 7, 8)


def _context(edit: object, model: nn.Module, query: tuple[int, ...] = QUERY) -> StaleContext:
    return StaleContext(model, None, edit, "", query_ids=query, case_id="case")  # type: ignore[arg-type]


@cache
def _model(name: str) -> nn.Module:
    return build(BY_NAME[name])


def _truth(start: int, stop: int) -> Truth:
    rows = plain_cache([])
    return Truth(clean=rows, query_ids=(1,), old_ids=(2,), new_ids=(3,), carrier=Interval(start, stop))


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load_model(str(save_tiny(tmp_path_factory.mktemp("tiny"))))


def test_what_choose_refuses() -> None:
    model = _model("llama")
    context = _context(IN_PLACE, model)
    truth = _truth(20, 25)
    privileged = RepairContext(model, None, IN_PLACE, "", query_ids=QUERY)  # type: ignore[arg-type]
    for attempt, line in (
        (lambda: choose("edit-locall", context, 3), "policy 'edit-locall' is unknown; did you mean 'edit-local'"),
        (lambda: choose("edit-local", context, 43), "k = 43 of policy 'edit-local' is outside 0 to 42, the positions"),
        (lambda: choose("edit-local", context, -1), "k = -1 of policy 'edit-local' is outside 0 to 42"),
        (lambda: choose("edit-local", context), "k = None of policy 'edit-local' is no whole number"),
        (lambda: choose("causal-oracle", context, 3), "is a diagnostic: it knows the truth"),
        (lambda: diagnose("edit-local", context, truth, 3), "is deployable and is not told the truth"),
        (
            lambda: diagnose("carrier-window", context, truth, 43),
            "k = 43 of policy 'carrier-window' is outside 0 to 42",
        ),
        (lambda: choose("edit-local", privileged, 3), "must not see a clean cache, which a RepairContext can compute"),
    ):
        with pytest.raises(InputError, match=line) as error:
            attempt()
        assert "\n" not in str(error.value)
    assert "clean-cache" not in privileged.timings
    at_end = Replacement(original_ids=IDS, start=57, stop=60, replacement_ids=[7, 8, 9])
    for name in ("edit-local", "attention", "random"):
        assert choose(name, _context(at_end, model), 0).positions.size == 0
        with pytest.raises(InputError, match="outside 0 to 0"):
            choose(name, _context(at_end, model), 1)


SNIPPET = """
from cachemend.repair_core.context import RepairContext, StaleContext
from cachemend.repair_core.policies.base import Choice, Diagnostic, Policy
from cachemend.repair_core.truth import Truth


class Honest(Policy):
    name = "honest"

    def select(self, context: StaleContext, k: int) -> Choice:
        return Choice(context.pool[:k])


class Peeks(Policy):
    name = "peeks"

    def select(self, context: StaleContext, k: int) -> Choice:
        context.clean  # attr-defined
        return Choice(context.pool[:k])


class Demands(Policy):
    name = "demands"

    def select(self, context: RepairContext, k: int) -> Choice:  # override
        return Choice(context.pool[:k])


class IsTold(Policy):
    name = "is-told"

    def select(self, context: StaleContext, truth: Truth, k: int) -> Choice:  # override
        return Choice(context.pool[:k])


class Explains(Diagnostic):
    name = "explains"

    def select(self, context: StaleContext, truth: Truth, k: int) -> Choice:
        return Choice(context.pool[: len(truth.new_ids)])
"""
MYPY = """[mypy]
mypy_path = {src}
explicit_package_bases = true
namespace_packages = true
ignore_missing_imports = true
follow_imports = skip
[mypy-cachemend.repair_core.context,cachemend.repair_core.truth,cachemend.repair_core.policies.*]
follow_imports = silent
"""


def test_a_deployable_policy_cannot_see_the_truth_by_type(tmp_path: Path) -> None:
    snippet, options = tmp_path / "snippet.py", tmp_path / "mypy.ini"
    snippet.write_text(SNIPPET, encoding="utf-8")
    options.write_text(MYPY.format(src=Path(__file__).parents[2] / "src"), encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file", str(options), "--cache-dir", str(tmp_path), str(snippet)]
    out = subprocess.run(command, capture_output=True, text=True, check=False)
    found = {
        (int(line.split(":")[1]), line.rsplit("[", 1)[1].rstrip("]"))
        for line in out.stdout.splitlines()
        if ": error:" in line
    }
    lines = SNIPPET.splitlines()
    expected = {(i + 1, lines[i].split("# ")[1]) for i in range(len(lines)) if "  # " in lines[i]}
    assert found == expected, out.stdout + out.stderr


def test_repair_of_an_allocator_takes_a_replacement(loaded: LoadedModel) -> None:
    context = desk_context(loaded, "blue")
    done = repair(loaded.model, loaded.tokenizer, context.deletion, "Who waits?", Tokens(6))
    assert len(done.positions) == 6
    assert done.inserted.tolist() == context.deletion.inserted_positions.tolist()
