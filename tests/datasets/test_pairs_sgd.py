"""Pairs from Schema-Guided Dialogue: what counts as an answer, what gives the label, and faults of the files."""

import gzip
import json
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from cachemend.datasets.pair_build import Built, in_hard_arm
from cachemend.datasets.pairs_sgd import build_sgd
from cachemend.datasets.pairs_sgd_files import read_dialogues, read_schema
from cachemend.datasets.pairs_sgd_rings import agree, contradict
from cachemend.datasets.pairs_sgd_turns import AnswerTurn, answer_turns
from cachemend.datasets.pairs_sgd_wording import reworded, schema_wording
from cachemend.repair_core.errors import InputError

from support.sgd_files import act, search, system, user, write_sgd

SHARED = Path(__file__).resolve().parents[2] / "../shared/data"
needs_data = pytest.mark.skipif(
    not (SHARED / "sgd" / "dev").is_dir(), reason="the Schema-Guided Dialogue files are not beside this checkout"
)


@pytest.fixture(scope="module")
def real() -> Built:
    return build_sgd(SHARED)


@pytest.fixture(scope="module")
def gold() -> dict[str, list[dict[tuple[str, str], tuple[str, ...]]]]:
    """User utterance -> what the next system turn says, (act, slot) -> values, read straight from the files."""
    found: dict[str, list[dict[tuple[str, str], tuple[str, ...]]]] = defaultdict(list)
    for path in sorted((SHARED / "sgd" / "dev").glob("dialogues_*")):
        for dialogue in json.loads(gzip.decompress(path.read_bytes())):
            turns = dialogue["turns"]
            for asked, replied in pairwise(turns):
                if asked["speaker"] == "USER":
                    acts = [a for frame in replied["frames"] for a in frame["actions"] if a["act"] != "INFORM_COUNT"]
                    said = {(a["act"], a["slot"]): tuple(a["canonical_values"]) for a in acts}
                    found[asked["utterance"] + "\n" + replied["utterance"]].append(said)
                    found[asked["utterance"]].append(said)
    return found


def many(n: int = 30) -> list[dict[str, Any]]:
    cities = ("Oslo", "Bergen", "Turku")
    return [
        search(f"9_{i:05}", cities[i % 3], f"Inn of {cities[i % 3]}", f"Please find a hotel, take {i}")
        for i in range(n)
    ]


def own_state(context: str) -> list[str]:
    """A context without what was said of another service before."""
    return [line for line in context.splitlines() if not line.startswith("earlier.")]


def turns_of(tmp_path: Path, *dialogues: dict[str, Any]) -> tuple[list[AnswerTurn], dict[str, int]]:
    folder = write_sgd(tmp_path, list(dialogues))
    return answer_turns(read_dialogues(folder), read_schema(folder))


def test_a_search_and_the_question_after_it_are_answer_turns(tmp_path: Path) -> None:
    (found, asked), rejects = turns_of(tmp_path, search("1_00000", "Oslo", "Grand", "A hotel in Oslo"))
    assert (found.kind, found.key, found.basis) == (
        "search",
        ("search", "Hotels_9", "SearchHotel"),
        (("city", "Oslo"),),
    )
    assert found.context == "service: Hotels_9\nintent: SearchHotel\ncity: Oslo"
    assert found.response == "Grand it is, said 1_00000."
    assert (asked.kind, asked.asked, asked.answer) == ("inform", ("phone",), (("INFORM", "phone", "555 Grand"),))
    assert asked.basis == (("city", "Oslo"), ("offered", "name=Grand"))
    assert asked.context.splitlines()[3:] == ["offered.name: Grand", "requested: phone"]
    assert rejects == {}


def test_values_are_shown_in_their_canonical_form(tmp_path: Path) -> None:
    dialogue = search("1_00000", "San Diego", "Grand", "A hotel in SD")
    for turn in (dialogue["turns"][0], dialogue["turns"][2]):
        turn["frames"][0]["state"]["slot_values"] = {"city": ["SD"]}
    found, _ = turns_of(tmp_path, dialogue)
    assert all("city: San Diego" in turn.context.splitlines() for turn in found)


def test_turns_whose_answer_rests_on_more_than_the_state_are_left_out(tmp_path: Path) -> None:
    offer = [act("OFFER", "name", "Grand")]
    state = {"city": "Oslo"}
    other = system("Booked.", [act("NOTIFY_SUCCESS")], method="BookHotel", parameters=state)
    two = system("Both.", offer, method="SearchHotel", parameters=state)
    two["frames"] *= 2
    dialogue = {
        "dialogue_id": "1_00000",
        "turns": [
            user("Another?", [act("REQUEST_ALTS")], state),
            system("The Grand.", offer, method="SearchHotel", parameters=state),
            user("Book it", [act("AFFIRM")], state, intent="BookHotel"),
            other,
            user("Find both", [act("AFFIRM")], state),
            two,
            user("Bye", [], state),
        ],
    }
    found, rejects = turns_of(tmp_path, dialogue)
    assert found == []
    assert rejects == {
        "the reply rests on which offers were turned down": 1,
        "the reply is no answer": 1,
        "the reply speaks for two services": 1,
    }


def test_a_value_changed_at_confirmation_gives_an_invalid_pair(tmp_path: Path) -> None:
    def booked(name: str) -> dict[str, Any]:
        first, second = {"city": "Oslo", "stars": "3"}, {"city": "Oslo", "stars": "5"}
        return {
            "dialogue_id": name,
            "turns": [
                user(f"Book it, {name}", [act("INFORM", "stars", "3")], first, intent="BookHotel"),
                system(f"3 stars in Oslo, {name}?", [act("CONFIRM", "city", "Oslo"), act("CONFIRM", "stars", "3")]),
                user(f"No, 5 stars, {name}", [act("NEGATE")], second, intent="BookHotel"),
                system(f"So 5 stars, {name}?", [act("CONFIRM", "stars", "5")]),
            ],
        }

    built = build_sgd(write_sgd(tmp_path, [booked(f"9_{i:05}") for i in range(9)]), n=32, seed=1)
    changed = [pair for pair in built.pairs if pair.rule == "sgd-changed-in-dialogue"]
    assert changed
    for pair in changed:
        assert pair.label == 0
        assert ("3 stars" in pair.r_cache) == ("stars: 3" in pair.context_cache) == ("stars: 5" in pair.context_probe)


def test_answers_agree_or_contradict_by_their_values_only(tmp_path: Path) -> None:
    def turn(*acts: dict[str, Any]) -> AnswerTurn:
        said = tuple(sorted((a["act"], a["slot"], "|".join(a["canonical_values"])) for a in acts))
        return found[0]._replace(answer=said)

    found, _ = turns_of(tmp_path, search("1_00000", "Oslo", "Grand", "A hotel"))
    grand, plaza = act("OFFER", "name", "Grand"), act("OFFER", "name", "Plaza")
    three, four = act("INFORM_COUNT", "count", "3"), act("INFORM_COUNT", "count", "4")
    stars = act("OFFER", "stars", "5")
    for one, other, same, against in (
        (turn(grand), turn(grand, three), True, False),
        (turn(grand, four), turn(grand, three), False, False),
        (turn(grand), turn(plaza), False, True),
        (turn(grand), turn(grand, stars), False, False),
        (turn(grand, stars), turn(plaza, stars), False, True),
    ):
        assert (agree(one, other), agree(other, one)) == (same, same)
        assert (contradict(one, other), contradict(other, one)) == (against, against)


def test_small_files_give_labels_by_city_and_a_stated_number(tmp_path: Path) -> None:
    built = build_sgd(write_sgd(tmp_path, many()[:15], many()[15:]), n=20, seed=3)
    assert Counter(pair.label for pair in built.pairs) == {1: 20 - round(20 * 716 / 1542), 0: round(20 * 716 / 1542)}

    def city(context: str) -> str:
        return next(line for line in context.splitlines() if line.startswith("city"))

    for pair in built.pairs:
        assert (city(pair.context_cache) == city(pair.context_probe)) == (pair.label == 1)
    assert build_sgd(tmp_path, n=20, seed=3) == built
    assert {pair.pair_id for pair in build_sgd(tmp_path, n=20, seed=4).pairs} != {p.pair_id for p in built.pairs}


def test_plain_and_gzipped_files_give_the_same(tmp_path: Path) -> None:
    packed = build_sgd(write_sgd(tmp_path / "a", many()), n=12)
    assert build_sgd(write_sgd(tmp_path / "b", many(), packed=False), n=12) == packed


def test_files_too_small_give_fewer_pairs(tmp_path: Path) -> None:
    built = build_sgd(write_sgd(tmp_path, many(2)), n=50)
    assert len(built.pairs) < 50
    assert build_sgd(write_sgd(tmp_path / "none", []), n=50) == Built((), {})


def test_rewordings_change_the_words_and_leave_the_values(tmp_path: Path) -> None:
    assert reworded("Can you find me a hotel in Oslo?") == "Could you get me a hotel in Oslo?"
    assert reworded("I want to find 2 rooms") == "I would like to look for 2 rooms"
    assert "12:00 please." in reworded("12:00 please.", 1, "x")
    assert reworded("12:00 please.", 1, "x") != "12:00 please."
    (found, asked), _ = turns_of(tmp_path, search("1_00000", "Oslo", "Grand", "A hotel"))
    schema = read_schema(tmp_path)
    assert schema_wording(found, schema) == "Look for a hotel."
    assert schema_wording(found._replace(stated=(("city", "Oslo"),)), schema) == (
        "Look for a hotel. City of the hotel: Oslo."
    )
    assert schema_wording(asked, schema) == "Of that one, give me: Phone number of the hotel."


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("dialogues_002.json.gz", gzip.compress(b"[]")[:15], "cannot be read"),
        ("dialogues_002.json", b'[{"dialogue_id": "\xff"}]', "is not UTF-8: byte 0xff at 18"),
        ("dialogues_002.json", b"[{", "is not JSON"),
        ("dialogues_002.json", b'{"turns": []}', "expected a list of dialogues"),
        ("dialogues_002.json", b'[{"dialogue_id": "1_00000"}]', "dialogue 1: expected an object with dialogue_id"),
    ],
)
def test_a_faulty_file_is_named(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    write_sgd(tmp_path, many(2))
    (tmp_path / "sgd" / "dev" / name).write_bytes(content)
    with pytest.raises(InputError, match=said) as raised:
        build_sgd(tmp_path)
    assert name in str(raised.value)
    assert "\n" not in str(raised.value)


def test_missing_files_and_a_turn_of_another_form_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"schema\.json does not exist"):
        build_sgd(tmp_path)
    write_sgd(tmp_path)
    with pytest.raises(InputError, match=r"no file sgd/dev/dialogues_\*"):
        build_sgd(tmp_path)
    broken = search("7_00003", "Oslo", "Grand", "A hotel")
    del broken["turns"][2]["frames"][0]["state"]
    with pytest.raises(InputError, match="dialogue 7_00003, turn 2: not the published form"):
        build_sgd(write_sgd(tmp_path / "b", [broken]))


@needs_data
def test_the_full_files_fill_the_quota(real: Built) -> None:
    assert Counter(pair.label for pair in real.pairs) == {1: 826, 0: 716}
    assert len({pair.pair_id for pair in real.pairs}) == 1542
    assert {(pair.source, pair.family, pair.pool) for pair in real.pairs} == {
        ("sgd", "dialogue-state", "reconstruction")
    }
    sizes = Counter(pair.cluster for pair in real.pairs)
    assert max(sizes.values()) <= 9
    assert len(sizes) > 250
    rules = Counter(pair.rule for pair in real.pairs)
    assert all(rules[f"sgd-{rule}"] > 150 for rule in ("repeat", "reworded", "other-dialogue", "changed-in-dialogue"))


@needs_data
def test_labels_follow_from_the_annotated_answers(real: Built, gold: dict[str, list[dict[Any, Any]]]) -> None:
    """Derived again from the files: what the system itself answers to the new request, against the cached answer."""
    own: dict[tuple[str, str], list[dict[Any, Any]]] = {}
    for pair in real.pairs:
        cached = gold[f"{pair.q_cache}\n{pair.r_cache}"]
        assert cached
        if pair.label:
            own[pair.q_probe, pair.context_probe] = cached
        if pair.rule in ("sgd-repeat", "sgd-reworded"):
            assert own_state(pair.context_cache) == own_state(pair.context_probe)
            assert (pair.q_cache == pair.q_probe) == (pair.rule == "sgd-repeat")
        elif pair.rule == "sgd-other-dialogue":
            assert any(one == other for one in cached for other in gold[pair.q_probe])
    for pair in real.pairs:
        if not pair.label:
            cached = gold[f"{pair.q_cache}\n{pair.r_cache}"]
            there = own[pair.q_probe, pair.context_probe]
            assert own_state(pair.context_cache) != own_state(pair.context_probe)
            assert any(one[key] != other[key] for one in cached for other in there for key in one.keys() & other.keys())


@needs_data
def test_half_of_the_new_requests_come_after_talk_of_another_service(real: Built) -> None:
    with_earlier = Counter((pair.label, "earlier.service: " in pair.context_probe) for pair in real.pairs)
    for label in (0, 1):
        share = with_earlier[label, True] / (with_earlier[label, True] + with_earlier[label, False])
        assert 0.4 < share < 0.6
    for pair in real.pairs:
        assert "earlier." not in pair.context_cache
        services = [
            line.split(": ")[1].split("_")[0] for line in pair.context_probe.splitlines() if "service: " in line
        ]
        assert len(set(services)) == len(services)


@needs_data
def test_every_side_of_an_invalid_pair_is_also_in_a_valid_one(real: Built) -> None:
    asked = {(pair.q_probe, pair.context_probe) for pair in real.pairs if pair.label == 1}
    answered = {(pair.q_cache, pair.r_cache, pair.context_cache) for pair in real.pairs if pair.label == 1}
    invalid = [pair for pair in real.pairs if pair.label == 0]
    assert all((pair.q_probe, pair.context_probe) in asked for pair in invalid)
    assert all((pair.q_cache, pair.r_cache, pair.context_cache) in answered for pair in invalid)
    assert not any(in_hard_arm("sgd", pair.cluster.removeprefix("sgd:"), seed=20_261_107) for pair in real.pairs)
