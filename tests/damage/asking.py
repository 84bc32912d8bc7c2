"""Questions to a data folder, and its answers: in this process, or by a server of its own.

A question is one HTTP request, an answer is what a client can see of the response. A group is asked in order:
what comes later in it may depend on what came before.

        Application    opens the folder in this process; requests go through the routes, without sockets
        OverHttp       starts `millstream serve` on the folder
"""

import asyncio
import hashlib
import http.client
import io
import json
import logging
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import msgspec

import running
from millstream.asgi import MillstreamApp
from millstream.client.core.errors import MillstreamError
from millstream.client.core.transport import Request as ClientRequest
from millstream.server import run as server
from millstream.store.base import StoreError

PATIENCE_S = 60.0
NEW_FORK = "/new-fork"
"""What the names of streams begin with that a question creates."""
BROKEN = 599
"""The status of a response that ended before its end, or did not come."""

_SEEN = re.compile(r"content-type$|stream-(?!cursor$)|producer-|etag$")
TIMES = ("stream-first-time", "stream-last-time")


class RefusedError(Exception):
    """The folder was not opened; the message is what an operator sees."""


class Question(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request."""

    method: str
    target: str
    headers: dict[str, str] = {}
    body: bytes = b""

    @property
    def stream(self) -> str:
        """The stream that is asked for."""
        return self.target.partition("?")[0]

    @property
    def changes(self) -> bool:
        """Whether it may change anything."""
        return self.method not in ("GET", "HEAD")


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a client sees: the status, headers, and the size and hash of the body, or a problem's code."""

    status: int
    headers: dict[str, str] = {}
    size: int = 0
    hash: str = ""

    @property
    def failed(self) -> bool:
        """Whether it says that the server could not answer, or can store nothing any more."""
        return self.status in (500, BROKEN) or (self.status == 503 and self.hash == "STORE_FAILED")


Group = list[Question]
Answers = list[list[Answer]]


class Asker(Protocol):
    """A folder that is open."""

    def ask(self, question: Question) -> Answer: ...

    def log(self) -> str: ...


def ask_all(asker: Asker, groups: list[Group]) -> Answers:
    """Ask everything; after a change that could not be made, no other change is asked of that stream."""
    answers: Answers = []
    failed: set[str] = set()
    for group in groups:
        found: list[Answer] = []
        for question in group:
            if question.changes and question.stream in failed:
                break
            found.append(asker.ask(question))
            if question.changes and found[-1].failed:
                failed.add(question.stream)
                break
        answers.append(found)
    return answers


# -- In this process ---------------------------------------------------------------------------------


class Application:
    """The application on a folder, on an event loop of its own."""

    def __init__(self, loop: asyncio.AbstractEventLoop, app: MillstreamApp, printed: io.StringIO) -> None:
        self._loop = loop
        self._app = app
        self._printed = printed

    def ask(self, question: Question) -> Answer:
        headers = {name.encode(): value.encode() for name, value in question.headers.items()}
        url = self._app.url("/").rstrip("/") + question.target
        request = ClientRequest(question.method.encode(), url, headers, question.body, PATIENCE_S)
        try:
            answer = self._loop.run_until_complete(self._app.client.send(request))
        except (StoreError, MillstreamError, OSError) as error:  # the body ended too early
            print(error, file=self._printed)
            return Answer(BROKEN)
        found = {name.decode().lower(): value.decode() for name, value in answer.headers.items()}
        return _answer(question, answer.status, found, answer.body)

    def log(self) -> str:
        return self._printed.getvalue()


@contextmanager
def application(folder: Path, at_ms: int | None = None) -> Iterator[Application]:
    """Open a folder in this process, now or at another time."""
    printed = io.StringIO()
    handler = logging.StreamHandler(printed)
    root = logging.getLogger()
    former, root.handlers[:] = root.handlers[:], [handler]
    clock_ms = server.clock_ms
    try:
        if at_ms is not None:
            server.clock_ms = lambda: at_ms
        with asyncio.Runner() as runner:
            app = MillstreamApp(data=str(folder), durability="os", disk_reserve_bytes=0, sse_ttl_s=3)
            try:
                runner.run(_open(app))
            except StoreError as error:
                raise RefusedError(f"{error}\n{printed.getvalue()}") from error
            try:
                yield Application(runner.get_loop(), app, printed)
            finally:
                runner.run(app.close())
    finally:
        server.clock_ms = clock_ms
        root.handlers[:] = former


async def _open(app: MillstreamApp) -> None:
    await app.open()


# -- By a server -------------------------------------------------------------------------------------


class OverHttp:
    """A server of its own on a folder, and one connection to it."""

    def __init__(self, server: running.Server) -> None:
        self.server = server
        self._address = server.url.removeprefix("http://")
        self._connection = http.client.HTTPConnection(self._address, timeout=PATIENCE_S)

    def ask(self, question: Question) -> Answer:
        connection = self._connection
        try:
            connection.request(question.method, question.target, question.body or None, question.headers)
            response = connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException):
            self.close()
            self._connection = http.client.HTTPConnection(self._address, timeout=PATIENCE_S)
            return Answer(BROKEN)
        found = {name.lower(): value for name, value in response.getheaders()}
        return _answer(question, response.status, found, body)

    def log(self) -> str:
        return self.server.output()

    def close(self) -> None:
        self._connection.close()


OPTIONS = (
    "--host",
    "127.0.0.1",
    "--port",
    "0",
    "--disk-reserve-bytes",
    "0",
    "--durability",
    "os",
    "--sse-ttl-s",
    "3",
)


@contextmanager
def over_http(folder: Path, command: tuple[str, ...] = ("-m", "millstream")) -> Iterator[OverHttp]:
    """Open a folder by a server, which is stopped at the end."""
    server = running.Server([sys.executable, *command, "serve", "--data", str(folder), *OPTIONS], {})
    try:
        try:
            running.announced(server)
        except running.ServerFailedError as error:
            raise RefusedError(server.output()) from error
        asker = OverHttp(server)
        try:
            yield asker
        finally:
            asker.close()
    finally:
        server.stop()


def _answer(question: Question, status: int, headers: Mapping[str, str], body: bytes) -> Answer:
    seen = {name: value for name, value in sorted(headers.items()) if _SEEN.match(name)}
    if question.target.startswith(NEW_FORK):
        for name in ("etag", "stream-incarnation"):
            seen.pop(name, None)  # made of the stream's id, which depends on how many were created before
    if "until=" not in question.target:  # what other questions have appended has times of its own
        seen = {name: value for name, value in seen.items() if name not in TIMES}
    if status >= 400:
        return Answer(status, seen, 0, _code(body))
    if "live=sse" in question.target:
        body = re.sub(rb'"streamCursor":"\d+"|,"streamLastTime":"[^"]+"', b"", body)
    if question.target.startswith("/__ds/streams"):
        body = _listed(body)
    return Answer(status, seen, len(body), hash_of(body))


def hash_of(body: bytes) -> str:
    """What an answer keeps of its body."""
    return hashlib.sha256(body).hexdigest()[:16]


def _code(body: bytes) -> str:
    with suppress(ValueError, AttributeError):
        found: Any = json.loads(body)
        return str(found.get("code", ""))
    return ""


def _listed(body: bytes) -> bytes:
    """Remove what each read renews, and what earlier versions did not say."""
    page = json.loads(body)
    for stream in page["streams"]:
        for name in ("attributes", "incarnation", "firstTime", "lastTime"):
            stream.pop(name, None)
        if stream["ttlSeconds"] is not None:
            del stream["expiresMs"]
    return json.dumps(page).encode()
