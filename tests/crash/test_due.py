"""When a checkpoint is due: rarely while little happens, soon when it frees room or when one has failed."""

from pathlib import Path

from crash.folders import NOW_MS, Opened, opened
from crash.test_backlog import tick
from millstream.store.log.files.layout import Layout

SECOND_MS, MINUTE_MS = 1_000, 60_000


def has_saved(data: Opened, now_ms: int) -> bool:
    """Tell whether a look at the clock has led to a checkpoint that saved everything."""
    tick(data, now_ms)
    return not data.engine.streams.has_changed


def saved_at_first(data: Opened) -> int:
    """Let the first one be over, and give when it was."""
    data.create("/a", body=b"x")
    assert has_saved(data, NOW_MS)
    return NOW_MS


def test_appends_of_five_minutes_are_saved_together(tmp_path: Path) -> None:
    with opened(tmp_path) as data:
        last_ms = saved_at_first(data)
        for minute in range(5):
            data.append("/a", b"%d" % minute)
            assert not has_saved(data, last_ms + minute * MINUTE_MS + 59 * SECOND_MS)
        assert has_saved(data, last_ms + 5 * MINUTE_MS)
        assert not data.engine.catalog.damage


def test_what_a_deletion_frees_is_free_within_seconds(tmp_path: Path) -> None:
    with opened(tmp_path) as data:
        last_ms = saved_at_first(data)
        data.delete("/a")
        assert not has_saved(data, last_ms + 4 * SECOND_MS)
        assert has_saved(data, last_ms + 5 * SECOND_MS)


def test_a_stream_that_could_not_be_saved_is_tried_again_before_others_are_due(tmp_path: Path) -> None:
    layout = Layout(2**26)
    with opened(tmp_path) as data:
        last_ms = saved_at_first(data)
        data.create("/b", body=b"x" * 2**17)  # too much for a pack
        entry = data.engine.streams.find("/b")
        assert entry is not None
        blocked = tmp_path / layout.content_name(entry.stream.id)
        blocked.mkdir(parents=True)
        last_ms += 5 * MINUTE_MS
        assert not has_saved(data, last_ms)
        blocked.rmdir()
        assert not has_saved(data, last_ms + 29 * SECOND_MS)
        assert has_saved(data, last_ms + 30 * SECOND_MS)


def test_files_of_parts_are_removed_before_others_are_due(tmp_path: Path) -> None:
    with opened(tmp_path) as data:
        saved_at_first(data)
        data.stage("/a", "one", b"y" * 1_000)
        last_ms = NOW_MS + 5 * MINUTE_MS
        assert has_saved(data, last_ms)
        assert list(tmp_path.glob("parts/*"))
        data.commit("/a", "one")
        assert not has_saved(data, last_ms + 29 * SECOND_MS)
        assert has_saved(data, last_ms + 30 * SECOND_MS)
        assert not list(tmp_path.glob("parts/*"))
