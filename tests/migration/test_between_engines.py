"""From a folder to PostgreSQL and back: the same answers, also after a migration that was killed."""

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from engines.driving import JSON, Engine
from engines.test_subscriptions import Desk
from migration.worlds import InSchema, continued, fill, observed
from millstream.migration import opening
from millstream.migration.copying import NO_PARTS, Progress, Report, migrate
from millstream.migration.records import is_unfinished
from millstream.store.base import StoreError
from millstream.store.log.opening import folder_store
from millstream.store.log.tools.check import verify
from millstream.store.postgres.encoding import decode_state
from millstream.store.postgres.opening import postgres_store
from postgres.cluster import shared

QUIET = Progress(lambda _: None, lambda _: None, lambda _: None)
KILLED = str(Path(__file__).with_name("killed.py"))


def moved(source: str | Path, destination: str | Path) -> Report:
    ends = opening.source(str(source), {}, None), opening.destination(str(destination))
    return asyncio.run(migrate(*ends, QUIET))


def schema() -> str:
    cluster = shared()
    return cluster.url(cluster.new_schema())


@pytest.mark.parametrize("seed", [1, 3])
def test_a_folder_that_went_through_postgres_answers_as_before(tmp_path: Path, seed: int) -> None:
    first, second, url = tmp_path / "first", tmp_path / "second", schema()
    with Engine("log", first) as engine:
        fill(engine, seed)
        before, now_ms = observed(engine), engine.now_ms
    shutil.copytree(first, tmp_path / "original")
    report = moved(first, url)
    assert report.streams == report.copied >= len(before)
    with InSchema(url) as engine:
        engine.now_ms = now_ms
        assert observed(engine) == before
    moved(url, second)
    assert verify(second).is_sound, verify(second).complaints
    with Engine("log", tmp_path / "original") as original, Engine("log", second) as engine:
        engine.now_ms = now_ms
        assert observed(engine) == before
        later = continued(original, seed, list(before), now_ms)
        assert continued(engine, seed, list(before), now_ms) == later
        engine.restart()
    assert verify(second).is_sound, verify(second).complaints


def killed_after(batches: int, source: str | Path, destination: str | Path) -> str:
    """Migrate in a process that kills itself after so many batches, and give what it had verified."""
    command = [sys.executable, KILLED, str(source), str(destination), str(batches)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode in (0, -9), done.stderr
    return done.stdout


async def begun(destination: str) -> None:
    """Open a store as a server does."""
    is_database = destination.startswith("postgres")
    await (postgres_store(destination) if is_database else folder_store(Path(destination))).open()


def on(destination: str) -> Engine:
    return InSchema(destination) if destination.startswith("postgres") else Engine("log", Path(destination))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object], int]:
    """A folder, with a stream that takes many batches; tests copy it."""
    folder = tmp_path_factory.mktemp("world") / "data"
    with Engine("log", folder) as engine:
        fill(engine, 7)
        engine.create("/large", content_type=b"application/octet-stream")
        for number in range(12):
            data = bytes([number]) * 20_000
            engine.append("/large", data, content_type=b"application/octet-stream")
        return folder, observed(engine), engine.now_ms


@pytest.mark.parametrize("to_database", [False, True])
def test_a_migration_that_is_killed_goes_on(
    world: tuple[Path, dict[str, object], int], tmp_path: Path, to_database: bool
) -> None:
    original, before, now_ms = world
    source = tmp_path / "source"
    shutil.copytree(original, source)
    destination = schema() if to_database else str(tmp_path / "destination")
    for batches in (1, 20, 15, 30):
        assert "complete" not in killed_after(batches, source, destination)
    with pytest.raises(StoreError, match=r"is not finished\. Run it again"):  # no server starts on half of it
        asyncio.run(begun(destination))
    with pytest.raises(StoreError, match=r"a migration from .* is not finished"):
        other = tmp_path / "other"
        with Engine("log", other):
            pass
        moved(other, destination)
    assert "complete" in killed_after(10**6, source, destination)
    with on(destination) as engine:
        engine.now_ms = now_ms
        assert observed(engine) == before
    again = moved(source, destination)  # whatever is there already is compared, and left as it is
    assert again.copied == 0 and again.streams > len(before)


def test_what_is_not_whole_is_not_there_for_readers(
    world: tuple[Path, dict[str, object], int], tmp_path: Path
) -> None:
    cluster = shared()
    name = cluster.new_schema()
    source = tmp_path / "source"
    shutil.copytree(world[0], source)
    killed_after(10**6, source, cluster.url(name))
    total = cluster.query(f"SELECT count(*) FROM {name}.stream_rows")[0][0]
    other = cluster.new_schema()
    killed_after(total - 1, source, cluster.url(other))  # the large stream is the last one
    states = [row[0] for row in cluster.query(f"SELECT state FROM {other}.streams")]
    unfinished = [stream for stream in map(decode_state, states) if is_unfinished(stream)]
    assert [stream.name for stream in unfinished] == ["/large"]
    assert 0 < unfinished[0].tail < 240_000


def test_a_folder_that_a_server_uses_is_refused(tmp_path: Path) -> None:
    with Engine("log", tmp_path / "used"):
        with pytest.raises(StoreError, match="is in use by another server"):
            moved(tmp_path / "used", tmp_path / "new")
        with Engine("log", tmp_path / "source"):
            pass
        with pytest.raises(StoreError, match="is in use by another server"):
            moved(tmp_path / "source", tmp_path / "used")
    with pytest.raises(StoreError, match="is not a data folder"):
        moved(tmp_path / "nowhere", tmp_path / "new")


@pytest.mark.parametrize("to_database", [False, True])
def test_other_streams_of_the_same_names_are_in_the_way(tmp_path: Path, to_database: bool) -> None:
    source, destination = tmp_path / "source", schema() if to_database else str(tmp_path / "destination")
    with Engine("log", source) as engine:
        engine.create("/a", b"mine")
        engine.create("/b", b"mine")
    with on(destination) as engine:
        engine.create("/b", b"theirs")
    with pytest.raises(StoreError, match=r"has other streams of the same names: /b\. Nothing was copied"):
        moved(source, destination)
    with on(destination) as engine:
        assert engine.names() == ["/b"]
        engine.delete("/b")
        engine.create("/c", b"theirs")
    report = moved(source, destination)
    assert report.copied == 2
    with on(destination) as engine:
        assert [engine.content(name) for name in engine.names()] == [b"mine", b"mine", b"theirs"]
        engine.create("/d", b"new")
        ids = [engine.stream(name).id for name in engine.names()]
        assert len(set(ids)) == 4 and max(ids) == ids[-1]


def test_what_is_lost_on_the_way_is_found(tmp_path: Path) -> None:
    """A byte that the destination has not as the source has it ends the migration with an error."""
    source, cluster = tmp_path / "source", shared()
    name = cluster.new_schema()
    with Engine("log", source) as engine:
        engine.create("/a", b"abc")
    with InSchema(cluster.url(name)):
        pass  # makes the tables
    cluster.execute(
        f"CREATE FUNCTION {name}.spoil() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN NEW.data := set_byte(NEW.data, 0, 65); RETURN NEW; END';"
        f"CREATE TRIGGER spoil BEFORE INSERT ON {name}.stream_rows "
        f"FOR EACH ROW EXECUTE FUNCTION {name}.spoil();"
    )
    with pytest.raises(StoreError, match="/a is not as it should be"):
        moved(source, cluster.url(name))


@pytest.mark.parametrize("to_database", [False, True])
def test_subscriptions_are_kept_where_there_can_be_any(tmp_path: Path, to_database: bool) -> None:
    first, second = tmp_path / "first", schema() if to_database else str(tmp_path / "second")
    with Engine("log", first) as engine:
        engine.create("/in/a", b"[1]", content_type=JSON)
        Desk(engine).pull()
        links = Desk(engine).links()
    report = moved(first, second)
    with on(second) as engine:
        assert Desk(engine).links() == links
    assert (report.subscriptions, report.not_kept) == (1, {})
    moved(second, tmp_path / "third")
    with on(str(tmp_path / "third")) as engine:
        assert Desk(engine).links() == links


def test_parts_that_wait_are_reported(tmp_path: Path) -> None:
    with Engine("log", tmp_path / "first") as engine:
        engine.create("/a", b"1")
        engine.stage("/a", "part", b"2")
    report = moved(tmp_path / "first", tmp_path / "second")
    assert report.not_kept == {NO_PARTS: 1}
    with Engine("log", tmp_path / "second") as engine:
        assert engine.content("/a") == b"1"
        assert engine.staged("/a") == []
