"""Retention: rules X4 and O4, on every engine."""

import pytest

from engines.driving import JSON, Engine, created
from millstream.protocol.forks import ForkBeforeStart
from millstream.protocol.lifecycle import ConfigMismatch, Exists
from millstream.protocol.offsets import NOW, START
from millstream.protocol.reads import Chunk, OffsetGone
from millstream.protocol.retention import KEEP_ALL, Retention
from millstream.protocol.streams import Append

THOUSAND = Retention(bytes=1000)
A_MINUTE = Retention(seconds=60)


def trim(engine: Engine) -> None:
    """Let the engine trim, and wait until readers may know."""
    engine.expire()
    engine.append("/anything", b".")  # what is decided later is durable later
    engine.append("/anything", b".")


@pytest.fixture
def limited(engine: Engine) -> Engine:
    """An engine with the stream /s of eight appends of 600 bytes, of which a thousand bytes are kept."""
    engine.create("/anything")
    engine.create("/s", retention=THOUSAND)
    for letter in b"abcdefgh":
        engine.append("/s", bytes([letter]) * 600)
    trim(engine)
    return engine


def test_what_is_over_the_limit_goes_in_whole_appends(limited: Engine) -> None:
    """X4: at least the limit is kept."""
    assert limited.content("/s") == b"g" * 600 + b"h" * 600
    assert limited.stream("/s").start == 6 * 600
    assert limited.stream("/s").tail == 8 * 600


@pytest.mark.parametrize("offset", [0, 1, 600, 3599])
def test_an_offset_before_the_start_is_gone(limited: Engine, offset: int) -> None:
    """O4."""
    assert limited.read("/s", offset) == OffsetGone(3600)
    assert limited.read("/s", offset, peek=True) == OffsetGone(3600)


@pytest.mark.parametrize("offset", [3600, 3601, 4200, 4799, 4800])
def test_offsets_stay_what_they_were(limited: Engine, offset: int) -> None:
    """O1: they count bytes from the stream's beginning, though it is gone."""
    whole = b"".join(bytes([letter]) * 600 for letter in b"abcdefgh")
    found = limited.chunk("/s", offset)
    assert (found.start, found.data, found.end) == (offset, whole[offset:], 4800)


def test_the_start_is_where_what_is_kept_begins_and_now_is_the_tail(limited: Engine) -> None:
    """O2, X4."""
    assert limited.chunk("/s", START).start == 3600
    assert limited.chunk("/s", NOW).start == 4800


def test_a_trimmed_stream_survives_a_restart_and_grows_on(limited: Engine) -> None:
    """X4."""
    for letter in b"ijklm":
        limited.restart()
        start = limited.stream("/s").start
        assert limited.read("/s", 0) == OffsetGone(start)
        limited.append("/s", bytes([letter]) * 600)
        trim(limited)
        assert limited.stream("/s").start > start
        assert limited.content("/s").endswith(bytes([letter]) * 600)
    assert limited.stream("/s").tail == 13 * 600


def test_up_to_a_sixteenth_more_is_kept(engine: Engine) -> None:
    """X4: a stream is not cut at every append."""
    engine.create("/anything")
    engine.create("/s", retention=Retention(bytes=1600))
    starts = set()
    for _ in range(400):
        engine.append("/s", b"0123456789")
        engine.expire()
        starts.add(engine.stream("/s").start)
    trim(engine)
    assert 1600 <= len(engine.content("/s")) <= 1710
    assert len(starts) < 60


def test_a_message_larger_than_the_limit_is_kept(engine: Engine) -> None:
    """X4."""
    engine.create("/anything")
    engine.create("/s", b"x" * 5000, retention=THOUSAND)
    trim(engine)
    assert engine.content("/s") == b"x" * 5000
    engine.append("/s", b"y" * 1000)
    trim(engine)
    assert engine.content("/s") == b"y" * 1000


def test_json_begins_with_a_whole_message(engine: Engine) -> None:
    """X4, G4."""
    engine.create("/anything")
    engine.create("/s", content_type=JSON, retention=Retention(bytes=100))
    for number in range(50):
        engine.append("/s", b'[{"n":%d},{"n":%d}]' % (number, number), content_type=JSON)
    trim(engine)
    found = engine.chunk("/s", max_bytes=1)
    assert found.start == engine.stream("/s").start > 0
    assert found.data.startswith(b'{"n":')
    assert engine.content("/s").endswith(b'{"n":49},{"n":49},')
    assert len(engine.content("/s")) >= 100


def test_what_is_old_enough_goes(engine: Engine) -> None:
    """X4: at least the seconds are kept, and up to a sixteenth more."""
    engine.create("/anything")
    engine.create("/s", retention=A_MINUTE)
    begun_ms = engine.now_ms
    for second in range(0, 180, 5):
        engine.now_ms = begun_ms + second * 1000
        engine.append("/s", b"%03d " % second)
        trim(engine)
        seconds = [int(word) for word in engine.content("/s").split()]
        assert seconds == list(range(seconds[0], second + 1, 5))
        assert seconds[0] <= max(0, second - 55)
        assert seconds[0] >= second - 70
    engine.now_ms += 59_000
    trim(engine)
    assert engine.content("/s").endswith(b"175 ")
    engine.now_ms += 5_000
    trim(engine)
    found = engine.chunk("/s")
    assert (found.data, found.start, found.up_to_date) == (b"", 36 * 4, True)
    engine.append("/s", b"new")
    assert engine.content("/s") == b"new"


def test_age_is_remembered_over_a_restart(engine: Engine) -> None:
    """X4: by streams that no request touches, too."""
    engine.create("/anything")
    engine.create("/s", b"old", retention=A_MINUTE)
    engine.now_ms += 30_000
    engine.append("/s", b"young")
    engine.restart()
    engine.now_ms += 31_000
    trim(engine)
    assert engine.content("/s") == b"young"
    engine.restart()
    engine.now_ms += 31_000
    trim(engine)
    assert engine.content("/s") == b""


def test_either_limit_lets_go(engine: Engine) -> None:
    """X4."""
    engine.create("/anything")
    engine.create("/s", b"a" * 500, retention=Retention(bytes=1000, seconds=60))
    engine.append("/s", b"b" * 600)
    engine.append("/s", b"c" * 600)
    trim(engine)
    assert engine.content("/s") == b"b" * 600 + b"c" * 600
    engine.now_ms += 61_000
    trim(engine)
    assert engine.content("/s") == b""


def test_limits_are_configuration(engine: Engine) -> None:
    """C1, X4."""
    engine.create("/s", retention=THOUSAND)
    assert isinstance(engine.create("/s", retention=THOUSAND), Exists)
    for other in (KEEP_ALL, Retention(bytes=1001), Retention(bytes=1000, seconds=1)):
        assert engine.create("/s", retention=other) == ConfigMismatch("/s", "retention")


def test_a_server_may_have_limits_for_streams_that_have_none(engine: Engine) -> None:
    """X4: what a stream says counts first; asking again without limits is the same configuration."""
    engine.store.usual_retention = Retention(bytes=10, seconds=20)
    assert created(engine.create("/usual")).retention == Retention(10, 20)
    assert created(engine.create("/own", retention=THOUSAND)).retention == Retention(1000, 20)
    assert isinstance(engine.create("/usual"), Exists)
    engine.store.usual_retention = KEEP_ALL
    assert isinstance(engine.create("/usual"), Exists)
    engine.restart()
    assert engine.stream("/usual").retention == Retention(10, 20)
    assert created(engine.create("/later")).retention == KEEP_ALL


def test_who_waits_hears_that_a_stream_was_trimmed(limited: Engine) -> None:
    """L6: what was made for readers of the old beginning must not be given again."""
    limited.append("/s", b"x" * 2000)
    limited.changes.clear()
    limited.expire()
    limited.until(lambda: "/s" in limited.changes)


# -- Forks ---------------------------------------------------------------------------------------------


def test_a_fork_keeps_what_its_source_lets_go(engine: Engine) -> None:
    """F1, X4."""
    engine.create("/anything")
    engine.create("/s", retention=THOUSAND)
    for letter in b"abc":
        engine.append("/s", bytes([letter]) * 600)
    inherited = engine.content("/s")
    engine.fork("/f", "/s", retention=Retention(bytes=10**6))
    for letter in b"defgh":
        engine.append("/s", bytes([letter]) * 600)
        trim(engine)
        engine.restart()
    assert engine.content("/s") == b"g" * 600 + b"h" * 600
    assert engine.content("/f") == inherited
    assert engine.read("/s", 0) == OffsetGone(3600)
    assert engine.chunk("/f", 700, max_bytes=10).data == b"b" * 10
    engine.delete("/s")
    engine.restart()
    assert engine.content("/f") == inherited
    engine.delete("/f")
    engine.restart()
    assert engine.names() == ["/anything"]


def test_a_fork_has_its_sources_limits_and_beginning(limited: Engine) -> None:
    """F1, X4."""
    assert limited.fork("/f", "/s", 600) == ForkBeforeStart(3600)
    fork = created(limited.fork("/f", "/s", 4200))
    assert (fork.retention, fork.start) == (THOUSAND, 3600)
    assert limited.content("/f") == b"g" * 600
    assert limited.read("/f", 3599) == OffsetGone(3600)
    limited.append("/f", b"F" * 900)
    trim(limited)
    assert limited.content("/f") == b"g" * 600 + b"F" * 900
    limited.append("/f", b"G" * 900)
    trim(limited)
    limited.restart()
    assert limited.content("/f") == b"F" * 900 + b"G" * 900
    assert limited.content("/s") == b"g" * 600 + b"h" * 600


def test_a_fork_of_a_fork_reads_through_what_both_let_go(engine: Engine) -> None:
    """F1, X4."""
    engine.create("/anything")
    engine.create("/s", b"a" * 600, retention=Retention(bytes=10))
    engine.append("/s", b"b" * 600)
    engine.fork("/f", "/s", retention=Retention(bytes=10))
    engine.append("/f", b"c" * 600)
    engine.fork("/g", "/f", retention=Retention(bytes=10**6))
    engine.append("/g", b"d")
    for _ in range(3):
        engine.append("/s", b"S" * 600)
        engine.append("/f", b"F" * 600)
        trim(engine)
        engine.restart()
    assert engine.content("/s") == b"S" * 600
    assert engine.content("/f") == b"F" * 600
    assert engine.content("/g") == b"a" * 600 + b"b" * 600 + b"c" * 600 + b"d"
    engine.delete("/f")
    engine.delete("/s")
    engine.restart()
    assert engine.content("/g") == b"a" * 600 + b"b" * 600 + b"c" * 600 + b"d"


def test_forks_at_several_points_keep_what_each_needs(engine: Engine) -> None:
    """F1, X4: while the source goes on; and it forgets everything with the last of them."""
    engine.create("/anything")
    engine.create("/s", retention=THOUSAND)
    contents = {}
    for turn in range(4):
        for letter in b"abcdef":
            engine.append("/s", bytes([letter + turn]) * 500)
        trim(engine)
        engine.fork(f"/f{turn}", "/s", retention=Retention(bytes=10**6))
        contents[f"/f{turn}"] = engine.content(f"/f{turn}")
    for letter in b"uvwxyz":
        engine.append("/s", bytes([letter]) * 500)
    trim(engine)
    engine.restart()
    engine.delete("/f1")
    del contents["/f1"]
    engine.append("/s", b"." * 5000)
    trim(engine)
    engine.restart()
    for name, content in contents.items():
        assert engine.content(name) == content
        engine.delete(name)
    assert engine.stream("/s").shared is None
    assert engine.content("/s") == b"." * 5000


def test_a_deleted_source_is_not_trimmed(engine: Engine) -> None:
    """F2, X4."""
    engine.create("/anything")
    engine.create("/s", b"a" * 600, retention=A_MINUTE)
    engine.fork("/f", "/s", retention=Retention(seconds=10**6))
    engine.delete("/s")
    engine.now_ms += 10**6
    trim(engine)
    assert engine.content("/f") == b"a" * 600


def test_a_closed_stream_is_trimmed_too(engine: Engine) -> None:
    """X4, G1."""
    engine.create("/anything")
    engine.create("/s", b"all", retention=A_MINUTE)
    assert isinstance(engine.append("/s", closes=True), Append)
    engine.now_ms += 70_000
    trim(engine)
    found = engine.chunk("/s")
    assert (found.data, found.at_end) == (b"", True)


def test_a_long_trimmed_stream_is_read_back_as_it_was_written(engine: Engine) -> None:
    """X4, G1: across many files, before and after restarts."""
    engine.create("/anything")
    engine.create("/s", retention=Retention(bytes=300_000))
    whole = b""
    for turn in range(4):
        for number in range(80):
            piece = bytes([(turn * 80 + number) % 251]) * (1 + 97 * number)
            engine.append("/s", piece)
            whole += piece
        trim(engine)
        start = engine.stream("/s").start
        assert 300_000 <= len(whole) - start <= 330_000 or len(whole) < 330_000
        position = start
        while position < len(whole):
            found = engine.read("/s", position, max_bytes=50_000)
            assert isinstance(found, Chunk)
            assert found.data == whole[position : position + 50_000]
            position = found.end
        engine.restart()
        assert engine.stream("/s").start == start
