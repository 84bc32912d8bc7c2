"""One read, of whatever kind, from its offset to where it ends."""

from __future__ import annotations

import base64
import binascii
import http.client
import json
import sys
import time
from typing import Any

from events import Events
from exchanges import PASSING, Answer, Client, Failure, Late, failure
from mutants import wrong

Command = dict[str, Any]
Result = dict[str, Any]


class Reading:
    """One read: where it is, and what it has."""

    def __init__(self, client: Client, command: Command, content_type: str | None) -> None:
        self.client, self.path = client, command["path"]
        self.live = "long-poll" if command.get("live") is True else command.get("live") or None
        self.offset = self.start = command.get("offset", "-1")
        self.headers = command.get("headers")
        self.deadline = time.monotonic() + command.get("timeoutMs", 5000) / 1000
        self.max_chunks = command.get("maxChunks", 100) if self.live else sys.maxsize
        self.until_up_to_date = command.get("waitForUpToDate", False)
        self.json = is_json(content_type)
        self.chunks: list[tuple[bytes, str]] = []
        self.up_to_date = self.closed = False
        self.status, self.cursor = 200, ""

    def run(self) -> Result:
        try:
            if self.live and wrong("fetches-first"):
                self._catch_up()
            if not self._done:
                self._events() if self.live == "sse" else self._polls()
        except Late:
            if not self.live:
                raise Failure("TIMEOUT", "no answer in time") from None
            self.up_to_date = True
        return self._result()

    def _catch_up(self) -> None:
        live, self.live = self.live, None
        self._polls()
        self.live = live

    @property
    def _done(self) -> bool:
        if self.closed:
            after = {"long-poll": "long-poll-goes-on-after-the-end", "sse": "sse-goes-on-after-the-end"}
            return not (self.live and wrong(after[self.live]))
        return len(self.chunks) >= self.max_chunks or (self.until_up_to_date and self.up_to_date)

    def _params(self) -> dict[str, str]:
        params = {"offset": self.offset}
        if self.live:
            params["live"] = self.live
        if self.cursor and not wrong("cursor-is-forgotten"):
            params["cursor"] = self.cursor
        return params

    def _take(self, body: bytes, offset: str) -> None:
        if self.json and body:
            try:
                items = json.loads(body)
            except ValueError as error:
                raise Failure("PARSE_ERROR", f"a body that is not JSON: {error}") from None
            body = body if wrong("json-joined-as-text") else compact(items)
            if not items:
                body = b""
        if wrong("read-decodes-each-part"):
            body = body.decode(errors="replace").encode()
        if body:
            self.chunks.append((body, offset))

    def _polls(self) -> None:
        asked_again = False
        while True:
            left_s = self.deadline - time.monotonic()
            answer = self.client.send(
                "GET", self.path, headers=self.headers, params=self._params(), timeout_s=max(0.0, left_s)
            )
            self.status = answer.status
            if answer.status == 304:
                if wrong("read-believes-304"):
                    self._take(b"stale", self.offset)
                self.up_to_date = True
                return
            if answer.status == 204 and wrong("long-poll-204-is-an-error"):
                raise Failure("UNEXPECTED_STATUS", "no content", 204)
            if answer.status not in {200, 204}:
                raise failure("read", answer)
            if wrong("read-counts-bytes-itself"):
                before = 0 if self.offset in {"-1", "now"} else int(self.offset.rpartition("_")[2])
                self.offset = f"{0:016d}_{before + len(answer.body):016d}"
            else:
                self.offset = answer.next_offset
            self._take(answer.body, self.offset)
            if self.live and wrong("long-poll-starts-over"):
                self.offset = self.start
            self.up_to_date, self.closed = answer.says("Stream-Up-To-Date"), answer.says("Stream-Closed")
            if wrong("end-is-never-seen"):
                self.closed = False
            self.cursor = answer.get("Stream-Cursor") or self.cursor
            if self._done or (not self.live and wrong("read-stops-after-first-part")):
                return
            if not self.live and self.up_to_date:
                if not wrong("read-asks-once-more") or asked_again:
                    return
                asked_again = True

    def _events(self) -> None:
        for attempt in range(8):
            try:
                connection, response = self.client.open(
                    "GET", self.path, self.headers, self._params(), b"", self.deadline
                )
                try:
                    self._connection(response)
                finally:
                    response.close()
                    connection.close()
            except TimeoutError:
                raise Late from None
            except (OSError, http.client.HTTPException) as error:
                if wrong("never-retries"):
                    raise Failure("NETWORK_ERROR", str(error)) from None
            if self._done or (self.closed and attempt > 2):
                return
            if wrong("sse-starts-over"):
                self.offset = self.start
            time.sleep(0.02 * 2**attempt)
        raise Failure("NETWORK_ERROR", "the events keep ending")

    def _connection(self, response: http.client.HTTPResponse) -> None:
        answer = Answer(response.status, response.getheaders())
        self.status = answer.status
        if answer.status in PASSING and not wrong("never-retries"):
            return
        if answer.status != 200:
            raise failure("read", answer)
        encoded = answer.get("Stream-SSE-Data-Encoding") == "base64" and not wrong("sse-leaves-base64")
        parser, held = Events(), list[bytes]()
        while piece := response.read1(65536):
            for kind, data in parser.feed(piece):
                if self._event(kind, data, held, encoded=encoded) and self._done:
                    return
        for kind, data in parser.rest():
            self._event(kind, data, held, encoded=encoded)
        if wrong("sse-delivers-half-events"):
            for body in held:
                self._take(body, self.offset)

    def _event(self, kind: str, data: str, held: list[bytes], *, encoded: bool) -> bool:
        """Take an event; data counts when its control event is there, which is True."""
        if kind == "data" or (kind != "control" and wrong("sse-unknown-events-are-data")):
            try:
                body = base64.b64decode(data.replace("\n", ""), validate=True) if encoded else data.encode()
            except binascii.Error as error:
                raise Failure("PARSE_ERROR", f"damaged base64: {error}") from None
            held.append(body)
            return False
        if kind != "control":
            return False
        try:
            control = json.loads(data)
            offset = control["streamNextOffset"]
        except (ValueError, TypeError, KeyError) as error:
            if wrong("sse-ignores-bad-control"):
                return False
            raise Failure("PARSE_ERROR", f"a damaged control event: {error}") from None
        self.offset = offset
        for body in held:
            self._take(body, offset)
        held.clear()
        self.cursor = control.get("streamCursor", self.cursor)
        self.closed = control.get("streamClosed", False) and not wrong("end-is-never-seen")
        self.up_to_date = self.closed or control.get("upToDate", False)
        return True

    def _result(self) -> Result:
        chunks = self.chunks
        if not self.live and len(chunks) > 1:
            body = b"".join(body for body, _ in chunks)
            if self.json and not wrong("json-joined-as-text"):
                body = compact([item for part, _ in chunks for item in json.loads(part)])
            chunks = [(body, chunks[-1][1])]
        closed = self.closed and (not self.live or len(chunks) < self.max_chunks or self._complete)
        up_to_date: bool | None = self.up_to_date or closed
        if wrong("end-is-seen-early"):
            closed = up_to_date = True
        if wrong("up-to-date-is-missing"):
            up_to_date = None
        if wrong("closed-but-not-up-to-date") and closed:
            up_to_date = False
        return {
            "status": self.status,
            "chunks": [shown(body, offset) for body, offset in chunks],
            "offset": self.offset,
            "upToDate": up_to_date,
            "streamClosed": closed,
        }

    @property
    def _complete(self) -> bool:
        return self.up_to_date


def compact(items: object) -> bytes:
    return json.dumps(items, separators=(",", ":"), ensure_ascii=False).encode()


def shown(body: bytes, offset: str) -> Result:
    try:
        return {"data": body.decode(), "offset": offset}
    except UnicodeDecodeError:
        return {"data": base64.b64encode(body).decode(), "binary": True, "offset": offset}


def is_json(content_type: str | None) -> bool:
    return (content_type or "").partition(";")[0].strip().lower() == "application/json"
