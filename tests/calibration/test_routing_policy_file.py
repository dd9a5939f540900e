"""Policy files: what is saved is loaded, and damage is refused in one line that names file and field."""

import json
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import pytest

from cachemend.calibration.errors import CalibrationError
from cachemend.calibration.routing import (
    DEFAULT_GRID,
    REGENERATE_ALL,
    CalibrationCounts,
    ReusePolicy,
    RiskBlock,
    RiskMap,
    Selection,
    Thresholds,
    load_policy,
    save_policy,
)

LIMITS = Thresholds(0.85, 0.05, 0.7, 0.6, 0.9, 0.5, 0.95)
POLICY = ReusePolicy(
    lexicon_version="1",
    lexicon_digest="ab" * 32,
    extractor_version=7,
    encoder="all-MiniLM-L6-v2",
    alpha=0.025,
    budget=0.3,
    thresholds=LIMITS,
    risk_map=RiskMap(blocks=(RiskBlock(0.0, 1 / 3, 40, 1), RiskBlock(0.5, 0.9, 20, 15))),
    own_guards=True,
    calibration=CalibrationCounts.of(Selection(LIMITS, 645, 260, 6, 120, 150, 16480, 12000)),
    selected_by="most valid hits under alpha and budget on the calibration subset",
)


@pytest.mark.parametrize(
    "policy",
    [
        POLICY,
        replace(POLICY, thresholds=REGENERATE_ALL, own_guards=False),
        replace(POLICY, thresholds=next(policy for policy in DEFAULT_GRID if policy.tau_v == inf)),
        replace(POLICY, thresholds=next(policy for policy in DEFAULT_GRID if policy.tau_r == inf)),
        replace(POLICY, alpha=0.1 + 0.2, budget=0, encoder="modèle"),
    ],
)
def test_round_trip(policy: ReusePolicy, tmp_path: Path) -> None:
    path = save_policy(policy, tmp_path / "new" / "policy.json")
    assert load_policy(path) == policy
    assert list(path.parent.iterdir()) == [path]


def test_the_file_is_plain_json(tmp_path: Path) -> None:
    path = save_policy(replace(POLICY, thresholds=REGENERATE_ALL), tmp_path / "policy.json")

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    content = json.loads(path.read_text(), parse_constant=refuse)
    assert content["version"] == 2
    assert content["extractor_version"] == 7
    assert content["thresholds"]["tau_r"] is None
    assert content["risk_map"]["blocks"][0] == {"low": 0.0, "high": 1 / 3, "n": 40, "invalid": 1}


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save_policy(POLICY, tmp_path / "policy.json")

    def full_disk(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(OSError, match="No space"):
        save_policy(replace(POLICY, alpha=0.5), path)
    assert load_policy(path) == POLICY
    assert list(tmp_path.iterdir()) == [path]


def changed(*keys: str | int, to: Any) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(json.dumps(POLICY.to_dict()))
    inner: Any = content
    for key in keys[:-1]:
        inner = inner[key]
    if to is ...:
        del inner[keys[-1]]
    else:
        inner[keys[-1]] = to
    return content


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (changed("version", to=1), "field version is 1; this release reads version 2"),
        (changed("version", to="2"), "field version is '2'"),
        (changed("version", to=2.0), r"field version is 2\.0; it must be a int"),
        (changed("version", to=...), "field version is missing"),
        (changed("extractor_version", to=...), "field extractor_version is missing"),
        (changed("extractor_version", to="1"), "field extractor_version is a str; it must be a int"),
        (changed("alpha", to=...), "field alpha is missing"),
        (changed("alhpa", to=0.1), "field alhpa is unknown; known: lexicon_version"),
        (changed("alpha", to="0.1"), "field alpha is a str; it must be a float"),
        (changed("alpha", to=True), "field alpha is True"),
        (changed("alpha", to=float("nan")), "field alpha is nan; it must be from 0 to 1"),
        (changed("budget", to=1.5), r"field budget is 1\.5"),
        (changed("own_guards", to=1), "field own_guards is a int; it must be a bool"),
        (changed("encoder", to=" "), "field encoder is empty"),
        (changed("lexicon_digest", to="AB" * 32), "field lexicon_digest is no SHA-256"),
        (changed("thresholds", to=[]), "field thresholds is a list"),
        (changed("thresholds", "tau_r", to=...), r"field thresholds\.tau_r is missing"),
        (changed("thresholds", "tau", to=1.0), r"field thresholds\.tau is unknown"),
        (changed("thresholds", "tau_r", to=1.2), r"field thresholds\.tau_r is 1\.2; it must be from 0 to 1"),
        (changed("thresholds", "tau_v", to=-0.1), r"field thresholds\.tau_v is -0\.1; it must be from 0 to 1"),
        (changed("thresholds", "delta_v", to=float("inf")), r"field thresholds\.delta_v is inf; it must be from 0"),
        (changed("thresholds", "delta_r", to=None), r"field thresholds\.delta_r is None"),
        (changed("thresholds", "upsilon_v", to=-0.1), r"field thresholds\.upsilon_v is -0\.1"),
        (changed("thresholds", "tau_v", to=0.9), r"thresholds\.tau_v makes verification stricter"),
        (changed("thresholds", "delta_v", to=0.04), r"thresholds\.delta_v makes verification stricter"),
        (changed("thresholds", "upsilon_v", to=0.6), r"thresholds\.upsilon_v makes verification stricter"),
        (changed("thresholds", "tau_v_conflict", to=0.5), r"thresholds\.tau_v_conflict is 0\.5, below tau_v 0\.6"),
        (changed("risk_map", "blocks", 1, "low", to=0.1), r"risk_map\.blocks\[1\] lies below"),
        (changed("risk_map", "blocks", 0, "n", to=...), r"field risk_map\.blocks\[0\]\.n is missing"),
        (changed("risk_map", "blocks", to=[{"low": 0, "high": 1, "n": 9, "invalid": 0}]), "9 valid and 0 invalid"),
        (changed("calibration", "calls", to=151), "field calibration is .* contradict"),
        (changed("calibration", "valid", to=-1), "field calibration is .* contradict"),
        ([], "the content is a list; it must be an object"),
    ],
)
def test_damage_is_refused(content: object, message: str, tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    path.write_text(json.dumps(content))
    with pytest.raises(CalibrationError, match=message) as caught:
        load_policy(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff\xfe", b'{"version": 1', b"[" * 100_000])
def test_what_is_not_json_is_refused(raw: bytes, tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    path.write_bytes(raw)
    with pytest.raises(CalibrationError, match="is not JSON") as caught:
        load_policy(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["alpha", "tau_r"])
def test_a_field_that_is_there_twice_is_refused(name: str, tmp_path: Path) -> None:
    path = save_policy(POLICY, tmp_path / "policy.json")
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(f'"{name}":', f'"{name}": 0.5, "{name}":'), encoding="utf-8")
    with pytest.raises(CalibrationError, match=f"policy.json: field {name} is there twice; give it once"):
        load_policy(path)


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole = save_policy(POLICY, tmp_path / "policy.json").read_bytes().rstrip()
    cut = tmp_path / "cut.json"
    for stop in range(0, len(whole), 7):
        cut.write_bytes(whole[:stop])
        with pytest.raises(CalibrationError, match="not JSON"):
            load_policy(cut)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(CalibrationError, match=r"policy file .*none.json cannot be read: No such file"):
        load_policy(tmp_path / "none.json")
    with pytest.raises(CalibrationError, match="cannot be read: Is a directory"):
        load_policy(tmp_path)
