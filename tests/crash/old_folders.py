"""Data folders that earlier versions wrote, with what they must answer for ever.

`format_<n>.tar.xz` has three folders of format n, with something of every kind (`damage.building`), and
`answers.json`: when they were written, what was asked, and what was answered then. Before the format changes,
the version before writes them:

        PYTHONPATH=tests python -m crash.old_folders

Staged parts live for a day, so a folder is opened at the time when it was written (`at_its_time.py`).
"""

import contextlib
import sqlite3
import tarfile
import tempfile
import time
from pathlib import Path

import msgspec

from damage.asking import Answers, Group, Question
from damage.building import build, format_of, scratch_folder

HERE = Path(__file__).parent
FORMATS = (3, 4, 5)
CONVERTED = 3
"""The last format whose content is written anew; folders of later ones are as they would be written today."""
_ANSWERS = "answers.json"
_ID_DIGITS = 16


class OldFolder(msgspec.Struct, omit_defaults=True):
    """A folder of an earlier format, and what it answers."""

    name: str
    written_ms: int
    groups: list[Group]
    answers: Answers
    place: str = ""

    @property
    def path(self) -> Path:
        """Where it is."""
        return Path(self.place) / self.name

    @property
    def whole(self) -> "OldFolder":
        """The same without the listing."""
        return msgspec.structs.replace(self, groups=self.groups[1:], answers=self.answers[1:])


def unpack(format: int, to: Path) -> list[OldFolder]:
    """Unpack the folders of a format."""
    with tarfile.open(HERE / f"format_{format}.tar.xz") as archive:
        archive.extractall(to, filter="data")
    folders = msgspec.json.decode((to / _ANSWERS).read_bytes(), type=list[OldFolder])
    return [msgspec.structs.replace(folder, place=str(to)) for folder in folders]


def write(to: Path) -> str:
    """Write the folders of today's format; says what was written."""
    with tempfile.TemporaryDirectory(dir=scratch_folder()) as scratch:
        built = build(Path(scratch))
        now_ms = time.time_ns() // 1_000_000
        folders = [OldFolder(one.name, now_ms, one.groups, one.truths[-1]) for one in built]
        (Path(scratch) / _ANSWERS).write_bytes(msgspec.json.encode(folders))
        target = to / f"format_{format_of(built[0].path)}.tar.xz"
        with tarfile.open(target, "w:xz", preset=9) as archive:
            for name in (_ANSWERS, *(one.name for one in built)):
                archive.add(Path(scratch) / name, name, filter=_anonymous)
    return f"{target.name}: {target.stat().st_size} bytes"


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


# -- More of the same --------------------------------------------------------------------------------


def multiply(folder: OldFolder, copies: int) -> list[OldFolder]:
    """Give a stopped folder of format 3 copies of all its streams, below `/copy-<n>`; what each must answer.

    Written byte by byte, because no later version can write this format.
    """
    with contextlib.closing(sqlite3.connect(folder.path / "catalog.db")) as catalog, catalog:
        (last_id,) = catalog.execute("select value from numbers where name = 'next_id'").fetchone()
        streams = catalog.execute("select * from streams").fetchall()
        producers = catalog.execute("select * from producers").fetchall()
        for copy in range(1, copies + 1):
            moved = copy * (last_id + 1)
            catalog.executemany("insert into streams values (?, ?, ?, ?, ?, ?)", _rows(streams, moved, copy))
            rows = [(id + moved, *rest) for id, *rest in producers]
            catalog.executemany("insert into producers values (?, ?, ?, ?, ?)", rows)
            _copy_files(folder.path, moved, last_id)
        last_id += copies * (last_id + 1)
        catalog.execute("update numbers set value = ? where name = 'next_id'", (last_id,))
    return [folder.whole, *(_asked_of(folder.whole, copy) for copy in range(1, copies + 1))]


def _rows(streams: list[tuple], moved: int, copy: int) -> list[tuple]:  # type: ignore[type-arg]
    rows = []
    for id, name, deadline_ms, flushed, appends, state in streams:
        stream = msgspec.msgpack.decode(state)
        stream |= {"id": id + moved, "name": f"/copy-{copy}{name}"}
        if fork := stream.get("fork"):
            fork["source_id"] += moved
            fork["source_name"] = f"/copy-{copy}{fork['source_name']}"
        rows.append(
            (id + moved, stream["name"], deadline_ms, flushed, appends, msgspec.msgpack.encode(stream))
        )
    return rows


def _copy_files(folder: Path, moved: int, last_id: int) -> None:
    for pattern in ("streams/*/*", "parts/*"):
        for path in list(folder.glob(pattern)):
            id, rest = int(path.name[:_ID_DIGITS], 16), path.name[_ID_DIGITS:]
            if id > last_id:
                continue  # a copy
            place = path.parent.with_name(f"{id + moved & 0xFF:02x}") if pattern[0] == "s" else path.parent
            place.mkdir(exist_ok=True)
            (place / f"{id + moved:0{_ID_DIGITS}x}{rest}").write_bytes(path.read_bytes())


def _asked_of(folder: OldFolder, copy: int) -> OldFolder:
    """The same questions about a copy; an entity tag has the stream's id."""
    groups = [
        [
            Question(
                question.method,
                f"/copy-{copy}{question.target}",
                {
                    name: f"/copy-{copy}{value}" if name == "stream-forked-from" else value
                    for name, value in question.headers.items()
                },
                question.body,
            )
            for question in group
        ]
        for group in folder.groups
    ]
    answers = [
        [
            msgspec.structs.replace(
                answer, headers={name: value for name, value in answer.headers.items() if name != "etag"}
            )
            for answer in group
        ]
        for group in folder.answers
    ]
    return msgspec.structs.replace(folder, name=f"copy-{copy}", groups=groups, answers=answers)


if __name__ == "__main__":
    print(write(HERE))
