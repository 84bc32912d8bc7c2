"""What is stored is nobody else's: not to read, and not to lock."""

import stat
from pathlib import Path

from crash.folders import opened
from millstream.protocol.producers import Stamp
from millstream.store.log.tools.archives import new_archive
from millstream.store.log.tools.backup import back_up, restore


def write(folder: Path) -> None:
    with opened(folder) as data:
        data.create("/a", body=b"x")
        data.append("/a", b"y", Stamp(b"p", 0, 0))
        data.stage("/a", "part", b"z")
        data.checkpoint()


def modes(folder: Path) -> dict[str, int]:
    """The rights of others on everything in a folder, where they have any."""
    found = {str(path.relative_to(folder)): path.stat() for path in folder.rglob("*")}
    return {name: stat.S_IMODE(about.st_mode) for name, about in found.items() if about.st_mode & 0o077}


def test_only_the_owner_may_open_what_is_stored(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    write(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert modes(folder) == {}


def test_what_a_former_version_made_is_closed_to_others(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "of the operator").touch(0o644)
    tmp_path.chmod(0o755)
    for path in tmp_path.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    with opened(tmp_path):
        open_to_others = modes(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755, "the folder is the operator's"
    reachable = [name for name in open_to_others if "/" not in name]
    assert reachable == ["of the operator"]


def test_a_backup_is_the_owners_too(tmp_path: Path) -> None:
    write(tmp_path / "data")
    for name in ("copy.tar", "copy"):
        with new_archive(tmp_path / name) as archive:
            back_up(tmp_path / "data", archive)
        restore(tmp_path / name, tmp_path / f"restored from {name}")
        for path in (tmp_path / name, tmp_path / f"restored from {name}"):
            assert not path.stat().st_mode & 0o077, path
