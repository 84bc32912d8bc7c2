"""Folders of an earlier format, opened by this version and killed again and again: they answer the same.

A version may convert a folder when it opens it, as its streams are used, or by `millstream check --convert`.
So each round does one of these on a larger folder, with reads of all streams and appends to some, and is
killed at a named step (`failpoints`) or at a random moment. In the end every stream must have what it had,
and what was appended and acknowledged, once.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from threading import Timer

import msgspec

from damage.asking import OPTIONS, Answer, Asker, OverHttp, Question, application, ask_all, hash_of
from damage.cases import changes_no_content
from damage.contents import stamp
from millstream.store.log import failpoints
from millstream.store.log.tools.check import verify
from running import Server, ServerFailedError, announced

from .old_folders import CONVERTED, OldFolder, multiply, unpack

COPIES = 10
WRITTEN_TO = 3
"""How many of the copies are appended to; the others are only read."""
KILLS_A_FOLDER = 5
CONVERTER = "converter"
_AT_ITS_TIME = str(Path(__file__).with_name("at_its_time.py"))


def conversion(scratch: Path, kills: int, *, seed: int = 1, progress: bool = False) -> str:
    """Kill so many conversions; gives a summary, or fails."""
    done, converts = 0, can_convert()
    for number in range(-(-kills // KILLS_A_FOLDER)):
        dice = random.Random(seed * 1_000_003 + number)
        place = scratch / "conversion"
        shutil.rmtree(place, ignore_errors=True)
        stopped = next(one for one in unpack(CONVERTED, place) if one.name == "stopped")
        folder = Conversion(stopped, dice)
        try:
            for _ in range(min(KILLS_A_FOLDER, kills - done)):
                if converts and dice.random() < 0.4:
                    folder.convert()
                else:
                    folder.serve()
                done += 1
            folder.verify()
        except BaseException as error:
            error.add_note(f"It was folder {number} of seed {seed}.")
            raise
        if progress and number % 10 == 9:
            print(f"  {done} kills", flush=True)
    ways = "opened or converted" if converts else "opened"
    return f"{done} kills of folders of an earlier format that were {ways}: all answers are the same"


def can_convert() -> bool:
    """Whether this version has a command that converts a folder."""
    command = [sys.executable, "-m", "millstream", "check", "--help"]
    return "--convert" in subprocess.run(command, capture_output=True, text=True, check=True).stdout


class Conversion:
    """One folder, from its first opening to the last."""

    def __init__(self, folder: OldFolder, dice: random.Random) -> None:
        self.folder = folder
        self.dice = dice
        self.parts = multiply(folder, COPIES)
        self.written = [Written(one, name) for one in self.parts[1 : WRITTEN_TO + 1] for name in growing(one)]

    def serve(self) -> None:
        """Let a server have it, with clients, until it is killed."""
        command = [sys.executable, _AT_ITS_TIME, str(self.folder.written_ms), "serve", *OPTIONS]
        failpoint = self._failpoint()
        server = Server([*command, "--data", str(self.folder.path)], failpoint)
        killing: Timer | None = None
        try:
            if not failpoint and self.dice.random() < 0.4:  # while it opens the folder, or soon after
                killing = _kill_after(server, self.dice.uniform(0.2, 1.5))
            announced(server)
            killing = killing or _kill_after(server, 2.0 if failpoint else self.dice.uniform(0.0, 1.0))
            with closing(OverHttp(server)) as asker:
                while server.exit_code is None:
                    self._use(asker)
        except ServerFailedError as error:
            if server.exit_code != -signal.SIGKILL:
                raise AssertionError(f"it was not killed: {error}") from error
        finally:
            if killing is not None:
                killing.join()
            server.stop()

    def convert(self) -> None:
        """Convert it by the command, until that is killed or done."""
        command = [sys.executable, "-m", "millstream", "check", str(self.folder.path), "--convert", "--yes"]
        with tempfile.TemporaryFile() as printed:
            environment = {**os.environ, **self._failpoint()}
            process = subprocess.Popen(command, stdout=printed, stderr=printed, env=environment)
            killing = _kill_after(process, self.dice.uniform(0.3, 2.0))
            code = process.wait()
            killing.cancel()
            killing.join()
            printed.seek(0)
            assert code in (0, -signal.SIGKILL), printed.read().decode()

    def verify(self) -> None:
        """Compare everything."""
        report = verify(self.folder.path)
        assert report.is_sound, report.complaints
        for _ in range(2):
            with application(self.folder.path, self.folder.written_ms) as asker:
                for written in self.written:
                    written.verify(asker)
                for number, one in enumerate(self.parts):
                    is_written = 1 <= number <= WRITTEN_TO
                    differences = compare(asker, one, lasting=is_written)
                    assert not differences, differences[:5]

    def _failpoint(self) -> dict[str, str]:
        """A step to be killed at, for half of the rounds; others are killed at any time."""
        name, count = self.dice.choice(failpoints.NAMES), self.dice.choice((1, 1, 2, 5))
        return {"MILLSTREAM_FAILPOINT": f"{name}:{count}"} if self.dice.random() < 0.5 else {}

    def _use(self, asker: Asker) -> None:
        """Read some streams, and append to some others."""
        for group in self.dice.sample(self.dice.choice(self.parts).groups, 5):
            if not group[0].changes:
                asker.ask(group[0])
        for written in self.dice.sample(self.written, 2):
            written.append(asker)


class Written:
    """A stream that is appended to by one producer."""

    def __init__(self, folder: OldFolder, name: str) -> None:
        head = next(
            answer
            for group, answers in zip(folder.groups, folder.answers, strict=True)
            for question, answer in zip(group, answers, strict=True)
            if question == Question("HEAD", name)
        )
        self.name = name
        self._type = head.headers["content-type"]
        self._tail = head.headers["stream-next-offset"]
        self._acknowledged = 0

    def append(self, asker: Asker) -> Answer:
        """Append the next line, or the one whose answer was lost once more."""
        fields = {"content-type": self._type, **stamp(CONVERTER, 0, self._acknowledged)}
        answer = asker.ask(Question("POST", self.name, fields, _line(self._acknowledged)))
        self._acknowledged += answer.status in (200, 204)
        return answer

    def verify(self, asker: Asker) -> None:
        """The lines are there, once, in order; the one whose answer was lost may be there or not."""
        assert self.append(asker).status in (200, 204)
        lines = b"".join(_line(number) for number in range(self._acknowledged))
        found = asker.ask(Question("GET", f"{self.name}?offset={self._tail}"))
        assert (found.status, found.hash) == (200, hash_of(lines)), f"{self.name}: {found}"


def growing(folder: OldFolder) -> list[str]:
    """Streams of a folder that take appends of text."""
    return [
        question.target
        for group, answers in zip(folder.groups, folder.answers, strict=True)
        for question, answer in zip(group, answers, strict=True)
        if question.method == "HEAD"
        and "?" not in question.target
        and answer.status == 200
        and answer.headers["content-type"] != "application/json"
        and "stream-closed" not in answer.headers
        and "stream-retain-bytes" not in answer.headers
    ]


def compare(asker: Asker, folder: OldFolder, *, lasting: bool = False) -> list[str]:
    """Ask what a folder must still answer, or only what does not change as it grows; gives what differs."""
    chosen = [
        (group, answers)
        for group, answers in zip(folder.groups, folder.answers, strict=True)
        if all(_is_asked(*pair, lasting=lasting) for pair in zip(group, answers, strict=True))
    ]
    found = ask_all(asker, [group for group, _ in chosen])
    wrong = []
    for (group, answers), got in zip(chosen, found, strict=True):
        for question, right, answer in zip(group, answers, got, strict=True):
            if not is_same(right, answer):
                wrong.append(f"{question.method} {question.target}: {answer} instead of {right}")
    return wrong


def is_same(right: Answer, answer: Answer) -> bool:
    """Tell whether an answer is the one of an earlier version; headers may be new, and entity tags differ."""
    right_headers = {name: value for name, value in right.headers.items() if name != "etag"}
    seen = {name: value for name, value in answer.headers.items() if name in right_headers}
    return msgspec.structs.replace(right, headers=right_headers) == msgspec.structs.replace(
        answer, headers=seen
    )


def _is_asked(question: Question, right: Answer, *, lasting: bool) -> bool:
    if lasting:
        return "until=" in question.target and "stream-up-to-date" not in right.headers
    return changes_no_content(question, right) and question.method != "PUT"


def _line(number: int) -> bytes:
    return b"converted %06d\n" % number


def _kill_after(process: "Server | subprocess.Popen[bytes]", wait_s: float) -> Timer:
    send = process.signal if isinstance(process, Server) else process.send_signal
    timer = Timer(wait_s, send, (signal.SIGKILL,))
    timer.start()
    return timer
