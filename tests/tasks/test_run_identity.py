"""Which records the auxiliary model separates: those it scores, and no others."""

from dataclasses import replace

from cachemend.repair_core import Arm
from cachemend.tasks.identity import RunIdentity

SELF = RunIdentity(
    experiment="erasing-niah",
    cohort_digest="c",
    model="m",
    model_fingerprint="f",
    dtype="float32",
    auxiliary="target",
    executor="packed",
    attention="sdpa",
    decoding="greedy-32",
    score_rule="niah-list-v1",
    engine_version=2,
)
OTHER = replace(SELF, auxiliary="0123456789abcdef")


def test_only_arms_scored_by_the_auxiliary_model_depend_on_it() -> None:
    speccache = Arm(allocator="speccache", budget=5.0)
    assert SELF.key("case", speccache) != OTHER.key("case", speccache)
    assert SELF.of("case", speccache)["auxiliary"] == "target"
    assert OTHER.of("case", speccache)["auxiliary"] == "0123456789abcdef"
    for arm in (
        Arm(allocator="sur", budget=5.0),
        Arm(allocator="clean-state-oracle", budget=5.0),
        Arm(allocator="shift"),
    ):
        assert SELF.key("case", arm) == OTHER.key("case", arm)
        assert SELF.of("case", arm)["auxiliary"] is None
