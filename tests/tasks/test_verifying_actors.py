"""Verdicts and likelihoods from workers, and from workers that die."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cachemend.calibration.candidate import Candidate
from cachemend.calibration.verdicts import Verdict
from cachemend.repair_core import load_model
from cachemend.repair_core.errors import InputError
from cachemend.tasks.cluster import connected
from cachemend.tasks.sizing import PoolSize
from cachemend.tasks.verifying.actors import ModelActors
from cachemend.tasks.verifying.likelihoods import response_likelihoods
from cachemend.tasks.verifying.local import LocalVerifier
from cachemend.tasks.worker_spec import WorkerSpec

from support.tiny_checkpoint import save_tiny

ONE = PoolSize(1, 1, 1, 0.0)


def candidate(text: str, times: int) -> Candidate:
    return Candidate(q_cache="q", r_cache=text * times, context_cache="", q_probe=text, context_probe="")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_workers_say_what_the_model_says_and_survive_their_deaths(tmp_path: Path) -> None:
    candidates = [candidate("amber ", times % 7) for times in range(70)]
    folder = save_tiny(tmp_path / "tiny", initializer_range=0.3)
    deadly = save_tiny(tmp_path / "deadly", deadly_word="Zwolf", initializer_range=0.3)
    spec = WorkerSpec(model=str(folder), device="cpu", max_new_tokens=8, score_rule="verdict")
    loaded = load_model(str(folder))
    with connected(None, cpus=2):
        with ModelActors(spec, PoolSize(2, 1, 1, 0.0)) as actors:
            alone = LocalVerifier(loaded=loaded)
            assert actors.verdicts(candidates) == alone.verdicts(candidates)
            assert actors.fingerprint == alone.fingerprint
            assert np.allclose(
                actors.likelihoods(candidates), response_likelihoods(loaded, candidates), atol=1e-5, equal_nan=True
            )
        dying = replace(spec, model=str(deadly), trust_remote_code=True)
        with ModelActors(dying, ONE) as actors:
            found = actors.verdicts([candidate("Zwolf", 1), *candidates])
            assert found[0] is Verdict.FAILED
            # Its chunk of 32 goes with it; the others are answered by the worker that took over.
            assert found.count(Verdict.FAILED) == 32
        with pytest.raises(InputError, match="does not exist"), ModelActors(replace(spec, model="./absent"), ONE):
            pass
