"""Worker processes that are killed: every message is handled, in order, by one at a time (rules S1, S4)."""

from pathlib import Path

import pytest

from crash.pulling import Call, check_calls, work_through_kills


def test_four_workers_over_a_hundred_streams_survive_kills(tmp_path: Path) -> None:
    """The short form; `make torture` kills more often, and the server, too."""
    print(work_through_kills(tmp_path, kills=6, seed=1))


def call(worker: str, first: int, last: int, begun_s: float, until_s: float, returned: bool = True) -> Call:
    return Call(worker, "s", first, last, begun_s, until_s, returned)


@pytest.mark.parametrize(
    ("calls", "complaint"),
    [
        ([call("a", 0, 0, 1, 2), call("b", 2, 2, 3, 4)], "came before number 1"),
        ([call("a", 0, 1, 1, 3), call("b", 2, 2, 2, 4)], "two at a time"),
        ([call("a", 0, 1, 1, 2, False), call("b", 2, 2, 3, 4)], "nobody has finished 0"),
        ([call("a", 0, 1, 1, 2)], "not everything was handled"),
    ],
)
def test_the_check_finds_what_it_looks_for(calls: list[Call], complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        check_calls(calls, {"s": 3})


def test_the_check_accepts_a_call_that_was_killed_and_repeated() -> None:
    check_calls([call("a", 0, 1, 1, 2, False), call("b", 0, 1, 3, 4), call("b", 2, 2, 4, 5)], {"s": 3})
