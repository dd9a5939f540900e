"""Settings: their order of precedence, their defaults, and what comes of them."""

from pathlib import Path

import pytest

from cachemend.flows.config import ErasingNiahConfig
from cachemend.flows.overrides import as_assignments, build_config
from cachemend.repair_core.allocators import names
from cachemend.repair_core.errors import InputError


def test_an_option_goes_before_set_before_file_before_default(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("model: from-file\ndtype: bfloat16\nbudgets: [2, 5]\n")
    config = build_config(
        ErasingNiahConfig,
        file=file,
        assignments=["model=from-set", "budgets=10", "budgets=20"],
        options={"model": "from-option"},
    )
    assert (config.model, config.dtype, config.budgets, config.executor) == (
        "from-option",
        "bfloat16",
        (20.0,),
        "packed",
    )


def test_json_is_a_config_file_too(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_text('{"lengths": [300, 600], "store_text": true}')
    config = build_config(ErasingNiahConfig, file=file)
    assert config.lengths == (300, 600)
    assert config.store_text is True


@pytest.mark.parametrize("text", ["[sur]", "sur", "- a: [", "\x00"])
def test_a_file_without_keys_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(text)
    with pytest.raises(InputError, match=r"run\.yaml"):
        build_config(ErasingNiahConfig, file=file)


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("allocators=sur, dense-tokens", "allocators", ("sur", "dense-tokens")),
        ("budgets=0.1", "budgets", (0.1,)),
        ("lengths=600,300", "lengths", (600, 300)),
        ("revision=1e5", "revision", "1e5"),
        ("revision=null", "revision", None),
        ("device_map=auto", "device_map", "auto"),
        ("device_map={model: 0}", "device_map", {"model": 0}),
        ("store_text=yes", "store_text", True),
    ],
)
def test_values_are_read_as_yaml(text: str, key: str, value: object) -> None:
    assert getattr(build_config(ErasingNiahConfig, assignments=[text]), key) == value


def test_the_roster_follows_the_model() -> None:
    assert ErasingNiahConfig().roster().name == "embedded"
    assert ErasingNiahConfig(model="Qwen/Qwen3-8B").roster().name == "paper-96"
    chosen = ErasingNiahConfig(model="Qwen/Qwen3-8B", lengths=(2048, 1024)).roster()
    assert chosen.lengths == (1024, 2048)
    assert chosen.cases_per_length == 16


def test_sweeps() -> None:
    default = ErasingNiahConfig().arms()
    assert len(default) == 4 + 5 * 4
    assert [arm.name for arm in default[:5]] == ["dirty", "shift", "replay", "re-prefill", "sur@2"]
    assert ErasingNiahConfig(sweep="demo").arms() == default
    assert len(ErasingNiahConfig(sweep="complete").arms()) == 4 + len(names()) * 6
    assert [arm.name for arm in ErasingNiahConfig(allocators=("sur",), budgets=(5,)).arms()[4:]] == ["sur@5"]


def test_settings_survive_the_way_through_a_command_line() -> None:
    config = build_config(
        ErasingNiahConfig,
        assignments=["revision=1e5", "budgets=0.1,5", "model=a b", "device_map={model: 0}", "workers=2"],
    )
    assert build_config(ErasingNiahConfig, assignments=as_assignments(config)) == config
    assert as_assignments(ErasingNiahConfig()) == []


def test_device_and_device_map_exclude_each_other() -> None:
    with pytest.raises(InputError, match="exclude each other"):
        build_config(ErasingNiahConfig, assignments=["device=cuda", "device_map=auto"])


def test_seed_and_lengths_replace_those_of_the_roster() -> None:
    plain = ErasingNiahConfig(cases="embedded").roster()
    other = ErasingNiahConfig(cases="embedded", seed=7, lengths=(500, 300)).roster()
    assert (other.first_seed, other.lengths) == (7, (300, 500))
    assert plain.first_seed != 7
    assert other.prompt == plain.prompt
