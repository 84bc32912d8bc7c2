"""A minute of fuzzing: every input that was kept, then new ones (see `fuzzing`)."""

import random

import pytest

from hardening.fuzz.fuzzing import corpus_of, fuzz, replay
from hardening.fuzz.targets import TARGETS

SECONDS = 60
"""For all targets together."""


@pytest.mark.parametrize("name", TARGETS)
def test_inputs_that_were_kept(name: str) -> None:
    target = TARGETS[name]
    assert replay(target, *corpus_of(target))


@pytest.mark.parametrize("name", TARGETS)
def test_new_inputs(name: str) -> None:
    """Others in every run; a finding is added to the corpus, and the message tells how to replay it."""
    seed = random.SystemRandom().getrandbits(32)
    print(f"{name}: seed {seed}", flush=True)
    summary = fuzz(TARGETS[name], SECONDS / len(TARGETS), seed)
    print(summary)
    assert summary.inputs
