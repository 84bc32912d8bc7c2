"""`examples/token_stream.py` in Chromium: its answer is exact, whatever happens while it is written.

The application runs under uvicorn as the example says, with default settings. `TOKEN_ROUNDS=20` repeats the
test with other moments.
"""

import contextlib
import os
import random
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from browser.watching import Watched
from running import Server, free_port, listening_on, started

EXAMPLES = Path(__file__).parents[2] / "examples"
ANSWER = (
    "A stream is a place, not a connection. What is written stays, in order, and has an address; so a reader "
    "that is cut off comes back with the last offset it saw, and misses nothing. "
)
WORDS = ANSWER.count(" ")
ROUNDS = int(os.environ.get("TOKEN_ROUNDS", "2"))


@contextmanager
def example(folder: Path, port: int) -> Iterator[Server]:
    command = [sys.executable, "-m", "uvicorn", "token_stream:api", "--app-dir", str(EXAMPLES)]
    with contextlib.chdir(folder), started([*command, "--port", str(port)], listening_on(port)) as server:
        yield server


class Reader:
    """The page, and what it shows."""

    def __init__(self, watched: Watched, port: int) -> None:
        self.page = watched.page
        self.page.goto(f"http://127.0.0.1:{port}/")

    def wait_for_words(self, count: int) -> None:
        self.page.wait_for_function(
            """count => document.getElementById("answer").textContent.split(" ").length > count""",
            arg=min(count, WORDS),
        )

    def wait_until_complete(self) -> str:
        self.page.wait_for_function(
            """() => document.getElementById("state").textContent === "complete" """, timeout=60_000
        )
        return str(self.page.locator("#answer").text_content())


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_an_answer_survives_a_killed_server_and_reloads(watched: Watched, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    port = free_port()
    with example(tmp_path, port) as server:
        reader = Reader(watched, port)
        reader.wait_for_words(chance.randrange(1, 8))
        if chance.random() < 0.5:
            reader.page.reload()
        reader.wait_for_words(chance.randrange(8, 20))
        server.signal(signal.SIGKILL)
        server.wait_for_exit()
    reached = len(str(reader.page.locator("#answer").text_content()).split())
    assert 8 <= reached < WORDS, "the kill should be in the middle of the answer"
    with example(tmp_path, port):
        reader.wait_for_words(reached + chance.randrange(4))
        reader.page.reload()
        assert reader.wait_until_complete() == ANSWER
        reader.page.reload()
        assert reader.wait_until_complete() == ANSWER


def test_a_stop_in_the_middle_is_quick_and_loses_nothing(watched: Watched, tmp_path: Path) -> None:
    port = free_port()
    with example(tmp_path, port) as server:
        reader = Reader(watched, port)
        reader.wait_for_words(5)
        server.signal(signal.SIGTERM)
        server.wait_for_exit(15)
    with example(tmp_path, port):
        assert reader.wait_until_complete() == ANSWER


def test_two_pages_read_one_answer(watched: Watched, tmp_path: Path) -> None:
    port = free_port()
    with example(tmp_path, port):
        first = Reader(watched, port)
        first.wait_for_words(3)
        other = watched.context.new_page()
        other.goto(f"http://127.0.0.1:{port}/")
        other.wait_for_function("""() => document.getElementById("state").textContent === "complete" """)
        assert other.locator("#answer").text_content() == first.wait_until_complete() == ANSWER
