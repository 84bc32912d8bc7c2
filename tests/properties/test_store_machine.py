"""Any history of requests leaves an engine where it leaves a plain list: C, A, R, F, G1, X2, X3, X6 to X8."""

import json
import tempfile
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

from engines.driving import ENGINES, JSON, TEXT, Engine, examples
from millstream.protocol.expiry import FOREVER, Lifetime
from millstream.protocol.lifecycle import Delete
from millstream.protocol.origins import Ago, Last, Since
from millstream.protocol.producers import Stamp
from millstream.protocol.reads import Chunk
from millstream.protocol.streams import Stream
from properties.model import Model, ModelStream

NAMES = ["/a", "/b", "/c", "/d"]

names = st.sampled_from(NAMES)
stamps = st.builds(Stamp, st.sampled_from([b"p", b"q"]), st.integers(0, 2), st.integers(0, 3))
message_lists = st.lists(st.integers(0, 10**6), max_size=3)
part_ids = st.sampled_from(["x", "y", "z"])
ttls_s = st.sampled_from([None, None, 5, 20])
rarely = st.sampled_from([False, False, False, True])


class StoreMachine(RuleBasedStateMachine):
    """An engine beside a model of it."""

    engine_kind = ""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self.engine = Engine(self.engine_kind, Path(self._folder.name))
        self.model = Model()
        self.accepted: list[tuple[ModelStream, bytes, bool, Stamp]] = []

    def teardown(self) -> None:
        self.engine.__exit__()
        self._folder.cleanup()

    def missing(self, name: str) -> None:
        """Check that the engine says why a stream cannot be reached."""
        kept = self.model.by_name.get(name)
        assert kept is None or kept.deleted
        gone = "NotFound" if kept is None else "SoftDeleted"
        assert type(self.engine.head(name)).__name__ == gone
        assert type(self.engine.read(name)).__name__ == gone
        assert type(self.engine.append(name, b"x")).__name__ == gone
        assert type(self.engine.delete(name)).__name__ == gone

    def draw_stream(self, data: st.DataObject) -> ModelStream:
        return self.model.by_name[data.draw(st.sampled_from(self.model.visible()), label="stream")]

    def draw_expected(self, data: st.DataObject, stream: ModelStream) -> int | None:
        """Give where a writer expects the tail (X6): it does not, it is right, or it is behind."""
        tail = len(stream.content)
        places = st.sampled_from([None, None, tail, tail, *stream.positions(), tail + 1])
        return data.draw(places, label="expected offset")

    # -- Requests --------------------------------------------------------------------------------

    @rule(
        name=names,
        content_type=st.sampled_from([TEXT, JSON]),
        body=message_lists,
        closed=st.booleans(),
        ttl_s=ttls_s,
    )
    def create(
        self, name: str, content_type: bytes, body: list[int], closed: bool, ttl_s: int | None
    ) -> None:
        lifetime = FOREVER if ttl_s is None else Lifetime(ttl_s=ttl_s)
        taken = self.model.by_name.get(name)
        text = json.dumps(body).encode() if content_type == JSON else bytes(map(ord, "".join(map(str, body))))
        decision = self.engine.create(name, text, content_type=content_type, closed=closed, lifetime=lifetime)
        kind = type(decision).__name__
        if taken is None:
            assert kind == "Create"
            messages = self.messages(content_type, body)
            ttl_ms = ttl_s * 1000 if ttl_s is not None else None
            stream = ModelStream(
                name, content_type, [messages] if messages else [], closed=closed, ttl_ms=ttl_ms
            )
            self.model.create(stream, self.engine.now_ms)
        elif taken.deleted:
            assert kind == "NameInUse"
        else:
            assert kind in ("Exists", "ConfigMismatch")

    @precondition(lambda self: self.model.by_name)
    @rule(data=st.data(), sub_offset=st.sampled_from([0, 0, 0, 1, 2, 5]), ttl_s=ttls_s)
    def fork(self, data: st.DataObject, sub_offset: int, ttl_s: int | None) -> None:
        name = data.draw(names, label="name")
        source = self.model.by_name[data.draw(st.sampled_from(sorted(self.model.by_name)), label="source")]
        if name in self.model.by_name:
            return
        place = data.draw(st.sampled_from(source.positions()) | st.integers(0, len(source.content) + 1))
        lifetime = FOREVER if ttl_s is None else Lifetime(ttl_s=ttl_s)
        kind = type(self.engine.fork(name, source.name, place, sub_offset, lifetime=lifetime)).__name__
        if source.deleted:
            assert kind == "SourceDeleted"
            return
        if place > len(source.content):
            assert kind == "ForkBeyondTail"
            return
        if source.content_type == JSON and place not in source.positions():
            assert kind == "ForkUnaligned"
            return
        left = self.model.next_append(source, place)
        units = left if source.content_type == JSON else [b"."] * len(b"".join(left))
        if sub_offset > len(units):
            assert kind == "SubOffsetOvershoot"
            return
        assert kind == "Create"
        base = place + len(b"".join(units[:sub_offset]))
        copied = self.model.inherited(source, base)
        ttl_ms = ttl_s * 1000 if ttl_s is not None else source.ttl_ms
        stream = ModelStream(name, source.content_type, copied, base, ttl_ms=ttl_ms, source=source)
        self.model.create(stream, self.engine.now_ms)

    @precondition(lambda self: self.model.visible())
    @rule(data=st.data(), body=message_lists, closes=rarely, stamp=st.none() | stamps)
    def append(self, data: st.DataObject, body: list[int], closes: bool, stamp: Stamp | None) -> None:
        if body or closes:
            stream = self.draw_stream(data)
            expected = self.draw_expected(data, stream)
            self.send(stream, self.messages(stream.content_type, body), closes, stamp, expected)

    @precondition(lambda self: self.model.visible())
    @rule(data=st.data())
    def append_the_next(self, data: st.DataObject) -> None:
        """Append as a producer that keeps count."""
        stream = self.draw_stream(data)
        last = stream.producers.get(b"p", Stamp(b"p", 0, -1))
        self.send(
            stream, self.messages(stream.content_type, [7]), False, Stamp(b"p", last.epoch, last.seq + 1)
        )

    @precondition(lambda self: self.accepted)
    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        """Send an accepted append once more: it changes nothing, however late it comes."""
        stream, body, closes, stamp = data.draw(st.sampled_from(self.accepted))
        if self.model.by_name.get(stream.name) is stream and not stream.deleted:
            assert self.model.verdict(stream, body, closes, stamp) != "Append"
            self.send(stream, [body] if body else [], closes, stamp)

    @precondition(lambda self: self.model.visible())
    @rule(data=st.data(), stamp=st.none() | stamps)
    def close(self, data: st.DataObject, stamp: Stamp | None) -> None:
        self.send(self.draw_stream(data), [], True, stamp)

    @precondition(lambda self: self.model.visible())
    @rule(data=st.data(), id=part_ids, body=message_lists.filter(bool))
    def stage(self, data: st.DataObject, id: str, body: list[int]) -> None:
        stream = self.draw_stream(data)
        messages = self.messages(stream.content_type, body)
        text = json.dumps(body).encode() if stream.content_type == JSON else b"".join(messages)
        decision = self.engine.stage(stream.name, id, text, content_type=stream.content_type)
        expected = self.model.stage(stream, id, messages, self.engine.now_ms)
        assert type(decision).__name__ == expected

    @precondition(lambda self: self.model.visible())
    @rule(
        data=st.data(),
        ids=st.lists(part_ids, min_size=1, max_size=3, unique=True),
        closes=rarely,
        stamp=st.none() | stamps,
        fingerprint=st.sampled_from([None, "a", "b"]),
    )
    def commit(
        self,
        data: st.DataObject,
        ids: list[str],
        closes: bool,
        stamp: Stamp | None,
        fingerprint: str | None,
    ) -> None:
        stream = self.draw_stream(data)
        staged = [id for id in stream.parts if id in ids] or ids
        expected = self.draw_expected(data, stream)
        decision = self.engine.commit(
            stream.name, *staged, closes=closes, stamp=stamp, expected=expected, fingerprint=fingerprint
        )
        verdict = self.model.commit(stream, staged, closes, stamp, expected, fingerprint, self.engine.now_ms)
        assert type(decision).__name__ == verdict
        if verdict == "Commit" and stamp is not None:
            self.accepted.append((stream, b"1,", closes, stamp))

    @precondition(lambda self: self.model.visible())
    @rule(data=st.data(), id=part_ids)
    def drop_part(self, data: st.DataObject, id: str) -> None:
        stream = self.draw_stream(data)
        assert type(self.engine.drop_part(stream.name, id)).__name__ == "Drop"
        stream.parts.pop(id, None)

    @precondition(lambda self: self.model.visible())
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        stream = self.draw_stream(data)
        decision = self.engine.delete(stream.name)
        assert isinstance(decision, Delete)
        assert decision.soft is (stream.forks > 0)
        self.model.delete(stream)

    @precondition(lambda self: self.model.visible())
    @rule(data=st.data(), sizes=st.lists(st.integers(1, 12), min_size=1, max_size=4))
    def read(self, data: st.DataObject, sizes: list[int]) -> None:
        """Read a whole stream in chunks of any size."""
        stream = self.draw_stream(data)
        content, position, turn = b"", 0, 0
        while True:
            found = self.engine.read(stream.name, position, max_bytes=sizes[turn % len(sizes)])
            assert isinstance(found, Chunk)
            assert stream.content_type != JSON or found.end in stream.positions()
            content, position, turn = content + found.data, found.end, turn + 1
            if found.up_to_date:
                break
            assert found.data
        assert content == stream.content
        assert found.closed is stream.closed
        self.model.use(stream, self.engine.now_ms)

    @precondition(lambda self: self.model.visible())
    @rule(data=st.data(), later_ms=st.integers(-1, 1), count=st.integers(0, 9))
    def read_from(self, data: st.DataObject, later_ms: int, count: int) -> None:
        """X7, X8: from any time, and the last of it."""
        stream = self.draw_stream(data)
        time_ms = data.draw(st.sampled_from([0, self.engine.now_ms, *stream.times])) + later_ms
        for origin in (Since(time_ms), Ago(self.engine.now_ms - time_ms)):
            found = self.engine.read_from(stream.name, origin)
            assert isinstance(found, Chunk)
            assert (found.start, found.end) == (stream.since(time_ms), len(stream.content))
        found = self.engine.read_from(stream.name, Last(count))
        assert isinstance(found, Chunk)
        assert found.data == stream.last(count, json=stream.content_type == JSON)
        self.model.use(stream, self.engine.now_ms)

    @rule(milliseconds=st.sampled_from([1, 700]))
    def set_clock_back(self, milliseconds: int) -> None:
        self.engine.now_ms -= milliseconds

    @rule(seconds=st.sampled_from([1, 4, 4, 12]))
    def expire(self, seconds: int) -> None:
        self.engine.now_ms += seconds * 1000
        self.engine.expire()
        self.model.expire(self.engine.now_ms)

    @rule()
    def checkpoint(self) -> None:
        self.engine.checkpoint()

    @rule()
    def restart(self) -> None:
        self.engine.restart()

    @rule()
    def crash(self) -> None:
        self.engine.crash()

    # -- What always holds -----------------------------------------------------------------------

    @invariant()
    def everything_is_as_the_model_says(self) -> None:
        assert self.engine.names() == self.model.visible()
        for name in NAMES:
            stream = self.model.by_name.get(name)
            if stream is None or stream.deleted:
                self.missing(name)
                continue
            found = self.engine.head(name)
            assert isinstance(found, Stream)
            assert (found.tail, found.closed) == (len(stream.content), stream.closed)
            assert (found.first_time_ms, found.last_time_ms) == tuple(
                (stream.times or [0])[i] for i in (0, -1)
            )
            assert (found.base, found.fork_count) == (stream.base, stream.forks)
            assert set(self.engine.staged(name)) == set(stream.parts)

    # -- How -------------------------------------------------------------------------------------

    @staticmethod
    def messages(content_type: bytes, body: list[int]) -> list[bytes]:
        """Give a body as it is stored."""
        if content_type == JSON:
            return [b"%d," % number for number in body]
        return [text] if (text := "".join(map(str, body)).encode()) else []

    def send(
        self,
        stream: ModelStream,
        messages: list[bytes],
        closes: bool,
        stamp: Stamp | None,
        expected: int | None = None,
    ) -> None:
        stored = b"".join(messages)
        body = b"[%b]" % stored[:-1] if stream.content_type == JSON and stored else stored
        verdict = self.model.verdict(stream, stored, closes, stamp, expected)
        decision = self.engine.append(
            stream.name,
            body,
            content_type=stream.content_type,
            closes=closes,
            stamp=stamp,
            expected=expected,
        )
        assert type(decision).__name__ == verdict
        if verdict == "Append":
            self.model.append(stream, messages, closes, stamp, self.engine.now_ms)
            if stamp is not None:
                self.accepted.append((stream, stored, closes, stamp))
        elif verdict in ("Duplicate", "AlreadyClosed"):
            self.model.use(stream, self.engine.now_ms)


@pytest.mark.parametrize("kind", ENGINES)
def test_any_history_ends_where_a_plain_list_does(kind: str) -> None:
    machine = type(f"{kind.title()}Machine", (StoreMachine,), {"engine_kind": kind})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples(kind),
            stateful_step_count=30,
            deadline=None,
            phases=[Phase.reuse, Phase.generate],  # to shrink a history takes longer than a test may
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )
