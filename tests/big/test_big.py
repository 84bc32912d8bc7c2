"""The short form of the checks on big streams; `make torture` has the long ones."""

from pathlib import Path

from big.streams import append_and_read


def test_a_stream_larger_than_all_tails_is_appended_and_read_with_flat_memory(tmp_path: Path) -> None:
    assert "256 MiB appended" in append_and_read(tmp_path, 256 * 2**20)
