"""A short load on a running server."""

from cli.commands import Cli


def test_a_bench_measures_three_kinds_of_work_and_leaves_nothing(cli: Cli) -> None:
    ended = cli("bench", "--seconds", "0.3", "--connections", "3", "--prefix", "/quick bench")
    assert (ended.code, ended.err) == (0, "")
    assert [record["work"] for record in ended.records] == ["append", "read", "tail"]
    for record in ended.records:
        assert isinstance(record["count"], int)
        assert record["count"] > 0
        for number in ("perSecond", "bytesPerSecond", "medianMs", "p99Ms"):
            assert isinstance(record[number], float)
            assert record[number] > 0
        assert isinstance(record["seconds"], float)
        assert 0.2 < record["seconds"] < 20
    assert cli("list", "--prefix", "/quick bench").out == b""


def test_a_terminal_shows_a_table(cli: Cli) -> None:
    shown = cli.terminal("bench", "--seconds", "0.2", "--connections", "2", NO_COLOR="1").text
    for work in ("append", "read", "tail"):
        [row] = [line for line in shown.splitlines() if line.startswith(f"{work} ")]
        assert " ms" in row
        assert "B/s" in row
    assert "per second" in shown
    assert "appending for 0.2 s ..." in shown
