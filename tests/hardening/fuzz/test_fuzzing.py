"""The fuzzer itself: it finds bugs, and what it finds can be replayed."""

from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

import pytest

from hardening.fuzz import fuzzing
from hardening.fuzz.fuzzing import FindingError, Target, corpus_of, fuzz, replay, stateless
from hardening.fuzz.targets import TARGETS
from millstream.protocol import globs, json_frames
from millstream.protocol.queries import Query
from millstream.server import compression
from millstream.server.http import heads
from millstream.server.http.connection import Connection

SECONDS = 30
"""Far more than a bug below takes to be found."""


@pytest.fixture(autouse=True)
def empty_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that a test finds is kept, and nothing is known before."""
    monkeypatch.setattr(fuzzing, "CORPUS", tmp_path)


def _without_zeros(data: bytes) -> Hashable:
    assert b"\0" not in data
    return bool(data)


TARGET = Target("letters", stateless(_without_zeros), lambda dice: b"a" * dice.randint(1, 100), (b"b",))


def test_a_finding_is_shrunk_and_can_be_replayed() -> None:
    with pytest.raises(FindingError) as found:
        fuzz(TARGET, SECONDS, seed=1)
    [path] = corpus_of(TARGET)
    assert path.read_bytes() == b"\0"
    assert f"--target letters --replay {path}" in str(found.value)
    with pytest.raises(FindingError):
        replay(TARGET, path)


def test_inputs_with_new_outcomes_are_kept_on_request() -> None:
    target = Target("lengths", stateless(bool), TARGET.generate, TARGET.tokens)
    assert fuzz(target, 0.1, seed=1).outcomes == {True, False}
    assert corpus_of(target) == []
    fuzz(target, 0.1, seed=1, keep=True)
    assert [len(path.read_bytes()) for path in corpus_of(target)] == [1]


def _matches_ends(wildcard: Any, segment: str) -> bool:
    return segment.startswith(wildcard._first) and segment.endswith(wildcard._last)


def _doubled(finish: Callable[[Connection], None]) -> Callable[[Connection], None]:
    def done(connection: Connection) -> None:
        connection._transport.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        finish(connection)

    return done


BUGS: dict[str, tuple[str, object, str, object]] = {
    "chunked bodies are not noticed": ("requests", heads, "_UNUSUAL", frozenset()),
    "every request is answered twice": ("connections", Connection, "_done", _doubled(Connection._done)),
    "gzip is not decoded": ("compressed", compression, "_DECOMPRESSORS", {b"gzip": lambda body: [body]}),
    "UTF-8 is not checked": ("json", json_frames, "_check_text", lambda _body: None),
    "only the ends of a segment are compared": ("globs", globs._Wildcard, "matches", _matches_ends),
    "a parameter may be repeated": ("queries", Query, "one", lambda self, name: self._values.get(name)),
}


@pytest.mark.parametrize("which", BUGS)
def test_a_bug_is_found(which: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, place, attribute, wrong = BUGS[which]
    monkeypatch.setattr(place, attribute, wrong)
    monkeypatch.setattr(heads, "_names", {})  # what it learns is wrong, too
    globs._compiled.cache_clear()
    with pytest.raises(FindingError):
        fuzz(TARGETS[name], SECONDS, seed=1)
    globs._compiled.cache_clear()
