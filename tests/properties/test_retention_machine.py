"""Any history of streams whose beginning is trimmed: what is left is right, and enough.

The model keeps everything that was ever written to each stream, and when. The engine may begin a stream
later, as far as its limits allow; whatever it still gives must be what the model has there.

Rules X4, X7, X8, X10, O4, F1.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from engines.driving import ENGINES, Engine, examples
from millstream.protocol.configuration import Configured
from millstream.protocol.forks import ForkBeforeStart
from millstream.protocol.lifecycle import Create, Delete
from millstream.protocol.origins import Last, Since
from millstream.protocol.reads import Chunk, OffsetGone
from millstream.protocol.retention import Retention
from millstream.protocol.trims import Trimmed
from millstream.store.log.files import layout

limits = st.builds(Retention, st.sampled_from([None, 50, 300, 2000]), st.sampled_from([None, 5, 30]))


@dataclass
class Written:
    """All that a stream was ever given."""

    limits: Retention
    content: bytes
    appends: list[tuple[int, int]]  # where each ends, and when it was written
    start: int = 0

    def boundaries(self) -> list[int]:
        return [0, *(end for end, _ in self.appends)]


class RetentionMachine(RuleBasedStateMachine):
    """An engine beside all that it was ever given."""

    engine_kind = ""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self.engine = Engine(self.engine_kind, Path(self._folder.name))
        self.written: dict[str, Written] = {}
        self.count = 0
        self.engine.create("/anything")

    def teardown(self) -> None:
        self.engine.__exit__()
        self._folder.cleanup()

    def draw(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.written)), label="stream")

    @rule(limits=limits)
    def create(self, limits: Retention) -> None:
        self.count += 1
        assert isinstance(self.engine.create(f"/{self.count}", retention=limits), Create)
        self.written[f"/{self.count}"] = Written(limits, b"", [])

    @precondition(lambda self: self.written)
    @rule(data=st.data(), sizes=st.lists(st.integers(1, 200), min_size=1, max_size=8))
    def append(self, data: st.DataObject, sizes: list[int]) -> None:
        name = self.draw(data)
        stream = self.written[name]
        for size in sizes:
            piece = bytes([len(stream.appends) % 251]) * size
            self.engine.append(name, piece)
            stream.content += piece
            last_ms = stream.appends[-1][1] if stream.appends else 0
            stream.appends.append((len(stream.content), max(last_ms, self.engine.now_ms)))

    @precondition(lambda self: self.written)
    @rule(data=st.data(), limits=limits)
    def fork(self, data: st.DataObject, limits: Retention) -> None:
        source_name = self.draw(data)
        source = self.written[source_name]
        offset = data.draw(st.sampled_from(source.boundaries()), label="offset")
        self.count += 1
        decision = self.engine.fork(f"/{self.count}", source_name, offset, retention=limits)
        if isinstance(decision, ForkBeforeStart):
            assert offset < decision.earliest <= len(source.content)
            return
        assert isinstance(decision, Create)
        inherited = [(end, ms) for end, ms in source.appends if end <= offset]
        effective = limits.or_else(source.limits)
        self.written[f"/{self.count}"] = Written(
            effective, source.content[:offset], inherited, decision.stream.start
        )

    @precondition(lambda self: self.written)
    @rule(data=st.data(), limits=limits)
    def configure(self, data: st.DataObject, limits: Retention) -> None:
        """X10: what was written before there was a limit of seconds counts as written last."""
        name = self.draw(data)
        stream = self.written[name]
        texts = {
            "retain_bytes": "none" if limits.bytes is None else str(limits.bytes),
            "retain_seconds": "none" if limits.seconds is None else str(limits.seconds),
        }
        assert isinstance(self.engine.configure(name, **texts), Configured)
        stream.limits = limits

    @precondition(lambda self: self.written)
    @rule(data=st.data(), checkpoints=st.booleans())
    def trim(self, data: st.DataObject, checkpoints: bool) -> None:
        """X10."""
        name = self.draw(data)
        stream = self.written[name]
        before = data.draw(st.integers(-1, len(stream.content)), label="before")
        start = max((end for end in stream.boundaries() if end <= before), default=0)
        decision = self.engine.trim(name, before)
        assert isinstance(decision, Trimmed)
        assert decision.start == max(start, stream.start)
        stream.start = decision.start
        if checkpoints:
            self.engine.checkpoint()

    @precondition(lambda self: self.written)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        name = self.draw(data)
        assert isinstance(self.engine.delete(name), Delete)
        del self.written[name]

    @rule(seconds=st.sampled_from([0, 1, 4, 20]))
    def pass_time(self, seconds: int) -> None:
        self.engine.now_ms += seconds * 1000
        self.engine.expire()
        self.engine.append("/anything", b".")

    @rule()
    def restart(self) -> None:
        self.engine.restart()

    @invariant()
    def what_is_left_is_right_and_enough(self) -> None:
        for name, stream in self.written.items():
            start = self.engine.stream(name).start
            before, stream.start = stream.start, start
            assert start >= before  # it never goes back
            assert start in stream.boundaries()
            assert self.engine.content(name) == stream.content[start:]
            if start:
                assert self.engine.read(name, start - 1) == OffsetGone(start)
            self.times_are_right(name, stream)
            if start > before:
                kept = len(stream.content) - start
                by_size = stream.limits.bytes is not None and kept >= stream.limits.bytes
                newest_gone_ms = max(ms for end, ms in stream.appends if end <= start)
                age_ms = self.engine.now_ms - newest_gone_ms
                by_age = stream.limits.seconds is not None and age_ms >= stream.limits.seconds * 1000
                assert by_size or by_age

    def times_are_right(self, name: str, stream: Written) -> None:
        """X7, X8: what is kept is found by its times, and counted from its end."""
        kept = [(end, ms) for end, ms in stream.appends if end > stream.start]
        found = self.engine.stream(name)
        assert (found.first_time_ms, found.last_time_ms) == ((kept[0][1], kept[-1][1]) if kept else (0, 0))
        begins = [stream.start, *(end for end, _ in kept)]
        for time_ms in (0, self.engine.now_ms, *(ms for _, ms in kept[-3:])):
            first = next((number for number, (_, ms) in enumerate(kept) if ms >= time_ms), len(kept))
            chunk = self.engine.read_from(name, Since(time_ms))
            assert isinstance(chunk, Chunk)
            assert chunk.start == begins[first]
        for count in (1, 3, len(kept) + 1):
            chunk = self.engine.read_from(name, Last(count))
            assert isinstance(chunk, Chunk)
            assert chunk.start == begins[max(0, len(kept) - count)]


@pytest.mark.parametrize("kind", ENGINES)
def test_any_history_leaves_what_the_limits_ask_for(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "LEAST_BYTES", 128)
    monkeypatch.setattr(layout, "MOST_BYTES", 256)
    monkeypatch.setattr(layout, "TIMED_BYTES", 256)
    monkeypatch.setattr(layout, "BLOCK_BYTES", 64)
    monkeypatch.setattr(layout, "PAGE_ENTRIES", 2)
    monkeypatch.setattr(layout, "PACKED_BYTES", 200)
    machine = type(f"{kind.title()}RetentionMachine", (RetentionMachine,), {"engine_kind": kind})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples(kind),
            stateful_step_count=30,
            deadline=None,
            phases=[Phase.reuse, Phase.generate],
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )
