"""The default of the memory budget: a share of what the machine, or a control group, gives."""

from pathlib import Path

import pytest

from millstream.store.log.cache import machine_memory
from millstream.store.log.cache.machine_memory import default_bytes

MIB = 2**20


@pytest.fixture(autouse=True)
def large_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_memory, "_physical_bytes", lambda: 4096 * MIB)


def in_group(folder: Path, line: str, limits: dict[str, str]) -> int:
    (folder / "cgroup").write_text(line)
    for name, limit in limits.items():
        path = folder / "mount" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(limit)
    return default_bytes(folder / "cgroup", folder / "mount") // MIB


def test_a_quarter_of_the_machine(tmp_path: Path) -> None:
    assert default_bytes(tmp_path / "no such file", tmp_path) == 1024 * MIB


@pytest.mark.parametrize(
    ("line", "limits", "expected_mib"),
    [
        ("0::/a/b\n", {"a/b/memory.max": "max\n", "a/memory.max": f"{2048 * MIB}\n"}, 512),
        ("0::/a\n", {"a/memory.max": f"{512 * MIB}\n"}, 128),
        ("0::/\n", {"memory.max": f"{800 * MIB}\n"}, 200),
        ("0::/not/here\n", {"memory.max": f"{800 * MIB}\n"}, 200),
        ("0::/../../elsewhere\n", {}, 1024),
        ("9:memory:/a\n1:cpu:/\n", {"memory/a/memory.limit_in_bytes": f"{400 * MIB}\n"}, 100),
        ("9:memory:/\n", {"memory/memory.limit_in_bytes": "9223372036854771712\n"}, 1024),
        ("0::/a\n", {"a/memory.max": "max\n"}, 1024),
    ],
)
def test_a_control_group_limits_it(
    tmp_path: Path, line: str, limits: dict[str, str], expected_mib: int
) -> None:
    assert in_group(tmp_path, line, limits) == expected_mib


def test_there_are_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert in_group(tmp_path, "0::/\n", {"memory.max": str(16 * MIB)}) == 64
    monkeypatch.setattr(machine_memory, "_physical_bytes", lambda: 2**40)
    assert default_bytes(tmp_path / "no such file", tmp_path) == 2048 * MIB


def test_on_this_machine() -> None:
    assert 64 * MIB <= default_bytes() <= 2048 * MIB
