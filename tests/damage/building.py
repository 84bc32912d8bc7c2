"""Builds the folders that are damaged, by a real server, and notes what they answer.

        first stop      something of every kind; kept, so that a file can be replaced by its older version
        second stop     the folder `stopped`
        SIGKILL         the folder `killed`: more changes, which only the log has
        SIGKILL         the folder `saved`: the same changes, after a checkpoint

A log that ends too early looks like one that a crash cut off, so after a kill the last changes may be
missing, if everything before them is there. So `killed` has the answers after each of its last changes.
"""

import contextlib
import copy
import os
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from millstream.store.base import StoreError
from millstream.store.log.tools.check import verify

from .asking import Answer, Answers, Group, OverHttp, Question, application, ask_all, over_http
from .contents import LAST_STEPS, Known, Writer, questions, write_first, write_last, write_second

SMALL_SEGMENTS = (str(Path(__file__).with_name("small_segments.py")),)
MANY_CHECKPOINTS = (str(Path(__file__).parents[1] / "crash" / "small_segments.py"),)
LOG = "wal"
_LEAST_TRIMMED = "0000000000000000_0000000000100000"
_TRIES = 5


class Folder(msgspec.Struct, frozen=True):
    """A folder, what it must answer, and an older version of its files."""

    name: str
    path: Path
    older: Path
    groups: list[Group]
    truths: list[Answers]
    """What it answers; the last one is right. A log that was cut may answer as an earlier one, throughout."""
    families: dict[str, str]
    """The streams that share content have the same family."""

    def only(self, chosen: Callable[[Question, Answer], bool]) -> "Folder":
        """Ask only groups whose questions are chosen, by what is the right answer to them."""
        pairs = list(zip(self.groups, self.truths[-1], strict=True))
        numbers = [
            number
            for number, (group, answers) in enumerate(pairs)
            if all(chosen(*pair) for pair in zip(group, answers, strict=True))
        ]
        return msgspec.structs.replace(
            self,
            groups=[self.groups[number] for number in numbers],
            truths=[[truth[number] for number in numbers] for truth in self.truths],
        )


def scratch_folder() -> str | None:
    """Where many small files are written soonest: in memory, if the system has such a place."""
    memory = Path("/dev/shm")
    return str(memory) if os.access(memory, os.W_OK) else None


def build(scratch: Path) -> list[Folder]:
    """Build the folders."""
    older, stopped, killed, saved = (scratch / name for name in ("older", "stopped", "killed", "saved"))
    with over_http(older, SMALL_SEGMENTS) as asker:
        writer = Writer(asker)
        write_first(writer)
    shutil.copytree(older, stopped)
    with over_http(stopped, SMALL_SEGMENTS) as asker:
        writer.asker = asker
        write_second(writer)
        _wait_for_trim(writer)
    folders = [_folder("stopped", stopped, older, writer.streams, [])]
    before_kill = copy.deepcopy(writer.streams)
    for _ in range(_TRIES):
        writer.streams = copy.deepcopy(before_kill)
        prefixes = _kill(writer, stopped, killed)
        if prefixes is not None:
            break
    else:
        raise AssertionError("checkpoints came in between each time")
    folders.append(_folder("killed", killed, stopped, writer.streams, prefixes))
    writer.streams = before_kill
    _kill_after_checkpoint(writer, stopped, saved)
    folders.append(_folder("saved", saved, stopped, writer.streams, []))
    return folders


def _wait_for_trim(writer: Writer) -> None:
    """Until what is asked later cannot depend on when a server looks for what it may remove."""
    while writer.earliest("/trimmed") < _LEAST_TRIMMED:
        time.sleep(0.05)
    last = ""
    while (now := writer.earliest("/trimmed")) != last:
        last = now
        time.sleep(1.2)


def _kill(writer: Writer, stopped: Path, killed: Path) -> list[Path] | None:
    """Make the last changes; gives folders with each beginning of them, or None after a checkpoint."""
    shutil.rmtree(killed, ignore_errors=True)
    shutil.copytree(stopped, killed)
    logs = [killed.with_name(f"log-{step}") for step in range(LAST_STEPS)]
    with over_http(killed, SMALL_SEGMENTS) as asker:
        before = _saved(killed)
        writer.asker = asker
        for step, log in enumerate(logs):
            shutil.rmtree(log, ignore_errors=True)
            try:
                shutil.copytree(killed / LOG, log)  # a checkpoint would come soon, so this must be quick
            except shutil.Error:  # one came, and removes segments
                return None
            write_last(writer, step)
        _end(asker)
    if _saved(killed) != before:
        return None
    return [_with_log(killed, log) for log in logs]


def _with_log(folder: Path, log: Path) -> Path:
    prefix = log.with_name(log.name.replace("log", "prefix"))
    shutil.rmtree(prefix, ignore_errors=True)
    shutil.copytree(folder, prefix, ignore=lambda _, names: [LOG] if LOG in names else [])
    return log.rename(prefix / LOG).parent


def _kill_after_checkpoint(writer: Writer, stopped: Path, saved: Path) -> None:
    """Make the last changes, and end the server when a checkpoint has written all of them."""
    shutil.copytree(stopped, saved)
    with over_http(saved, MANY_CHECKPOINTS) as asker:
        writer.asker = asker
        for step in range(LAST_STEPS):
            write_last(writer, step)
        while not _is_saved(saved, saved.with_name("trial")):
            time.sleep(0.3)
        _end(asker)


def _is_saved(folder: Path, trial: Path) -> bool:
    """Whether a checkpoint has written everything, as far as a copy shows that was made meanwhile."""
    shutil.rmtree(trial, ignore_errors=True)
    try:
        shutil.copytree(folder, trial)
        report = verify(trial)
    except (shutil.Error, StoreError):  # something changed while it was copied
        return False
    return report.is_sound and report.last_lsn == report.applied_lsn


def _end(asker: OverHttp) -> None:
    asker.server.signal(signal.SIGKILL)
    asker.server.stop()


def _saved(folder: Path) -> dict[str, bytes]:
    """What a checkpoint would change."""
    found = {path.relative_to(folder): path for path in folder.rglob("*") if path.is_file()}
    return {
        str(name): path.read_bytes()
        for name, path in found.items()
        if name.parts[0] != LOG and not name.name.endswith("-shm")
    }


def _folder(name: str, path: Path, older: Path, streams: dict[str, Known], prefixes: list[Path]) -> Folder:
    groups = questions(streams)
    truths = []
    for folder in (*prefixes, path):
        with application(Workplace(folder, path.with_name("asked")).restore()) as asker:
            truths.append(ask_all(asker, groups))
    families = {name: known.family for name, known in streams.items()}
    return Folder(name, path, older, groups, truths, families)


class Workplace:
    """A copy of a folder that may be changed, and is then made like the original again."""

    def __init__(self, original: Path, path: Path) -> None:
        self.original = original
        self.path = path
        self._files = {file.relative_to(original) for file in original.rglob("*") if file.is_file()}
        self._copied: dict[Path, tuple[int, int, int]] = {}
        shutil.rmtree(path, ignore_errors=True)

    def restore(self) -> Path:
        """Copy what has changed since it was copied, and remove what is new."""
        found = {file.relative_to(self.path) for file in self.path.rglob("*") if file.is_file()}
        for name in found - self._files:
            (self.path / name).unlink()
        for name in self._files:
            copy = self.path / name
            if name not in found or _state(copy) != self._copied[name]:
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(self.original / name, copy)
                self._copied[name] = _state(copy)
        return self.path


def _state(file: Path) -> tuple[int, int, int]:
    found = file.stat()
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns


def format_of(folder: Path) -> int:
    """The version of a folder's format."""
    with contextlib.closing(sqlite3.connect(folder / "catalog.db")) as catalog:
        version: int = catalog.execute("pragma user_version").fetchone()[0]
    return version
