"""The benchmark of in-place edits: what it times, how often, and the floors it compares with."""

from collections.abc import Callable

import pytest

from cachemend.repair_core import LoadedModel, load_model
from cachemend.repair_core.caches import read_rows
from cachemend.repair_core.prefilling import prefill
from cachemend.tasks.bench.edits import bench_edits, replaced_span
from cachemend.tasks.bench.floor import bytes_of_a_copy
from cachemend.tasks.bench.sampling import interleaved

from support.tiny_checkpoint import save_tiny


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load_model(str(save_tiny(tmp_path_factory.mktemp("tiny"))))


def test_each_length_has_its_floor_targets_and_the_longest_the_gain(
    loaded: LoadedModel, capsys: pytest.CaptureFixture[str]
) -> None:
    targets = bench_edits(loaded, lengths=(96, 160), ks=(8, 32), rounds=1)
    named = [(target.name.split(",")[0], target.at_least, target.at_most) for target in targets]
    floors = [("refresh with its copy over its own floor", None, 2), ("refresh in place over its own floor", None, 2)]
    assert named == [*floors, ("re-prefill over refresh of span + 32 with its copy", 40, None), *floors]
    assert "token-layer ratio 4" in targets[2].name  # 160 tokens over 4 + 32
    printed = capsys.readouterr().out
    assert printed.count("n=3") == 2 * (1 + 2 * 3)
    assert printed.count("n=1") == 2


def test_the_replaced_span_is_four_tokens_at_three_tenths() -> None:
    edit = replaced_span(50, 100)
    pairs = zip(edit.original_ids, edit.edited_ids, strict=True)
    assert [i for i, (old, new) in enumerate(pairs) if old != new] == [30, 31, 32, 33]


def test_a_copy_reads_and_writes_every_byte_of_the_cache(loaded: LoadedModel) -> None:
    rows = read_rows(prefill(loaded.model, list(range(1, 41))))
    assert bytes_of_a_copy(loaded.model, 40) == 2 * sum(keys.nbytes + values.nbytes for keys, values in rows)


def test_short_functions_run_several_times_a_round() -> None:
    calls: list[str] = []
    functions: dict[str, Callable[[], object]] = {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}
    times = interleaved(functions, 3, warmups=1, per_round={"a": 2})
    assert [sorted(calls[i : i + 3]) for i in range(0, 12, 3)] == [["a", "a", "b"]] * 4
    assert (times["a"].n, times["b"].n) == (6, 3)
