"""A program with a producer that is started again: nothing of it may be taken for a retry and dropped."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import millstream
from running import Server, durable_millstream

PROGRAM = Path(__file__).parent / "writing_program.py"
JSON = "application/json"


class Program:
    """One run of the program."""

    def __init__(self, kind: str, url: str, run: str, count: int) -> None:
        self.run = run
        command = [sys.executable, str(PROGRAM), kind, url, run, str(count)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._lines: list[str] = []

    def wait_for_line(self) -> str:
        assert self._process.stdout is not None
        self._lines.append(self._process.stdout.readline().strip())
        return self._lines[-1]

    def kill(self) -> None:
        self._process.kill()
        self._finish()

    def wait(self) -> int:
        self._finish()
        return self._process.returncode

    def _finish(self) -> None:
        rest, _ = self._process.communicate(timeout=60)
        self._lines += rest.split("\n")

    @property
    def acknowledged(self) -> int:
        """How many messages the program knows to be stored."""
        return max((int(line) + 1 for line in self._lines if line.isdigit()), default=0)

    @property
    def failure(self) -> str:
        return next((line for line in self._lines if "Error" in line), "")


@pytest.fixture(params=["sync", "async"])
def kind(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def shared(any_url: str) -> str:
    """A stream on either server that several programs write."""
    millstream.DurableStream.create(any_url, content_type=JSON)
    return any_url


def stored(url: str) -> dict[str, list[int]]:
    """The numbers of each run, in the order in which they are stored."""
    found: dict[str, list[int]] = {}
    for run, number in millstream.stream(url, live=False).read_json():
        found.setdefault(run, []).append(number)
    return found


def check(url: str, programs: list[Program]) -> None:
    """What a run knows to be stored is stored, once and in order, and beyond it only what it was about to."""
    found = stored(url)
    for program in programs:
        numbers = found.get(program.run, [])
        assert numbers == list(range(len(numbers))), program.run
        assert len(numbers) >= program.acknowledged, (program.run, program.acknowledged)


def test_every_start_of_a_program_stores_everything(kind: str, shared: str) -> None:
    for run in ("first", "second", "third"):
        assert Program(kind, shared, run, 20).wait() == 0
    assert stored(shared) == {run: list(range(20)) for run in ("first", "second", "third")}


def test_programs_that_run_at_once_lose_nothing_silently(kind: str, shared: str) -> None:
    """One goes on; each of the others stores everything before, or is fenced and says so."""
    programs = [Program(kind, shared, f"run-{number}", 500) for number in range(3)]
    codes = [program.wait() for program in programs]
    check(shared, programs)
    assert 0 in codes
    for program, code in zip(programs, codes, strict=True):
        if code:
            assert program.failure.startswith("StaleEpochError"), program.failure
        else:
            assert stored(shared)[program.run] == list(range(500))


def test_a_program_that_is_started_again_fences_the_one_that_runs(kind: str, shared: str) -> None:
    old = Program(kind, shared, "old", 1_000_000)
    old.wait_for_line()
    new = Program(kind, shared, "new", 20)
    assert new.wait() == 0
    assert old.wait() == 1
    assert old.failure.startswith("StaleEpochError"), old.failure
    assert "writer-1" in old.failure
    check(shared, [old, new])
    assert stored(shared)["new"] == list(range(20))


def test_a_program_that_was_killed_is_started_again(kind: str, shared: str) -> None:
    killed = [Program(kind, shared, f"killed-{number}", 1_000_000) for number in range(0)]
    for number in range(3):
        killed.append(Program(kind, shared, f"killed-{number}", 1_000_000))
        for _ in range(number + 1):
            killed[-1].wait_for_line()
        killed[-1].kill()
    last = Program(kind, shared, "last", 20)
    assert last.wait() == 0
    check(shared, [*killed, last])
    assert stored(shared)["last"] == list(range(20))


def test_a_program_and_its_server_are_killed_and_started_again(kind: str, tmp_path: Path) -> None:
    """The epoch is stored with the data: a server that restarts knows it."""
    for run in ("first", "second"):
        with durable_millstream("--data", str(tmp_path)) as server:
            url = f"{server.url}/log"
            millstream.DurableStream.create(url, content_type=JSON)
            assert Program(kind, url, run, 20).wait() == 0
            found = stored(url)
    assert found == {"first": list(range(20)), "second": list(range(20))}


def test_what_an_earlier_run_stored_is_no_silent_success(shell: Any, any_url: str) -> None:
    """The same id and epoch as a run before: the server takes the append for a retry. It is none."""
    stream = shell.DurableStream.create(any_url, content_type=JSON)
    with shell.IdempotentProducer(stream, "p", epoch=7) as first:
        first.append("first run")
    second = shell.IdempotentProducer(stream, "p", epoch=7)
    second.append("second run")
    with pytest.raises(millstream.DuplicateAppendError, match="epoch 7") as caught:
        second.flush()
    assert (caught.value.epoch, caught.value.seq, caught.value.status) == (7, 0, 204)
    assert shell.stream(any_url, live=False).read_json() == ["first run"]


def test_a_run_that_repeats_another_adds_what_is_missing(shell: Any, any_url: str) -> None:
    stream = shell.DurableStream.create(any_url, content_type=JSON)
    for count in (3, 5):
        with shell.IdempotentProducer(stream, "p", epoch=7, repeat=True, max_batch_bytes=1) as producer:
            for number in range(count):
                producer.append(number)
    assert producer.duplicate_count == 3
    assert shell.stream(any_url, live=False).read_json() == list(range(5))


def test_a_new_producer_is_ahead_of_any_epoch(shell: Any, any_url: str) -> None:
    """Also of one that is ahead of the clock."""
    stream = shell.DurableStream.create(any_url, content_type=JSON)
    ahead = 2**52
    with shell.IdempotentProducer(stream, "p", epoch=ahead) as first:
        first.append("first")
    with shell.IdempotentProducer(stream, "p") as second:
        for number in range(10):
            second.append(number)
    assert second.epoch > ahead
    assert shell.stream(any_url, live=False).read_json() == ["first", *range(10)]


def test_a_session_is_resumed_where_the_server_has_it(shell: Any, any_url: str) -> None:
    stream = shell.DurableStream.create(any_url, content_type=JSON)
    with shell.IdempotentProducer(stream, "p", resume=True, max_batch_bytes=1) as first:
        assert first.next_seq == 0
        for number in range(3):
            first.append(number)
    with shell.IdempotentProducer(stream, "p", resume=True, max_batch_bytes=1) as second:
        assert (second.epoch, second.next_seq) == (first.epoch, 3)
        for number in range(second.next_seq, 6):
            second.append(number)
    assert shell.stream(any_url, live=False).read_json() == list(range(6))


def test_a_named_epoch_is_resumed_or_refused(shell: Any, any_url: str) -> None:
    stream = shell.DurableStream.create(any_url, content_type=JSON)
    for epoch in (5, 5, 6):
        with shell.IdempotentProducer(stream, "p", epoch=epoch, resume=True) as producer:
            producer.append(producer.next_seq)
            assert producer.epoch == epoch
    with (
        pytest.raises(millstream.StaleEpochError),
        shell.IdempotentProducer(stream, "p", epoch=5, resume=True),
    ):
        pass
    assert shell.stream(any_url, live=False).read_json() == [0, 1, 0]


def test_two_that_resume_the_same_session_do_not_lose_silently(shell: Any, any_url: str) -> None:
    stream = shell.DurableStream.create(any_url, content_type=JSON)
    with shell.IdempotentProducer(stream, "p", resume=True) as first:
        first.append(0)
        first.flush()
        second = shell.IdempotentProducer(stream, "p", resume=True)
        second.append("by the second")
        second.flush()
        second.detach()
        first.append("by the first")
        with pytest.raises(millstream.DuplicateAppendError):
            first.flush()
        with pytest.raises(millstream.DuplicateAppendError):
            first.detach()
    assert shell.stream(any_url, live=False).read_json() == [0, "by the second"]


def test_resuming_leaves_nothing_in_the_stream(shell: Any, url: str, server: Server) -> None:
    stream = shell.DurableStream.create(url, content_type="text/plain")
    for _ in range(3):
        with shell.IdempotentProducer(stream, "p", resume=True) as producer:
            assert producer.next_seq == 0
    assert shell.stream(url, live=False).read_text() == ""


@pytest.mark.parametrize("wrong", [{"repeat": True}, {"repeat": True, "resume": True, "epoch": 1}])
def test_options_that_contradict_each_other_are_refused(shell: Any, url: str, wrong: dict[str, Any]) -> None:
    stream = shell.DurableStream.create(url, content_type=JSON)
    with pytest.raises(ValueError, match="repeat"):
        shell.IdempotentProducer(stream, "p", **wrong)
