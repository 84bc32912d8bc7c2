"""A small correct client with its adapter, in one file, and many ways to be wrong.

`python adapter.py` passes the whole suite. `python adapter.py MUTANT` breaks one thing: wherever
`wrong("...")` stands, that is what goes wrong. MUTANTS names the rules that must notice.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import http.client
import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote, urlsplit

MUTANTS = {
    "close-without-header": "CL1",
    "close-message-first": "CL1",
    "closed-is-a-conflict": "CL3",
    "close-again-is-an-error": "CL2",
    "head-forgets-the-type": "HE1",
    "delete-does-nothing": "DE1",
    "end-is-never-seen": "CL4",
    "end-is-seen-early": "CL4",
    "final-offset-is-missing": "CL1",
    "create-forgets-closed": "CR1",
    "create-forgets-ttl": "CR1",
    "create-always-201": "CR2",
    "create-content-by-append": "CR1",
    "append-as-latin-1": "AP1",
    "append-strips": "AP1",
    "append-bare-content-type": "AP1",
    "append-is-repeated": "AP4",
    "append-without-seq": "AP3",
    "json-is-printed-again": "AP2",
    "producer-never-counts": "PR1",
    "producer-retries-with-next-seq": "PR2",
    "producer-gives-up": "PR2",
    "producer-claims-same-epoch": "PR3",
    "producer-always-claims": "PR3",
    "producer-keeps-seq-when-claiming": "PR3",
    "batch-reversed": "PR4",
    "batch-one-by-one": "PR4",
    "producer-close-without-stamp": "PR5",
    "producer-close-only-once": "PR5",
    "producer-close-forgets-message": "PR5",
    "detach-closes": "PR6",
    "read-stops-after-first-part": "RE1",
    "read-asks-once-more": "RE1",
    "read-counts-bytes-itself": "RE2",
    "read-does-not-encode-offsets": "RE2",
    "read-decodes-each-part": "RE3",
    "read-believes-304": "RE5",
    "json-joined-as-text": "RE4",
    "long-poll-starts-over": "LP1",
    "long-poll-204-is-an-error": "LP2",
    "long-poll-goes-on-after-the-end": "LP3",
    "sse-only-lf": "SS1",
    "sse-unknown-events-are-data": "SS1",
    "sse-splits-at-every-line-separator": "SS3",
    "sse-trims-lines": "SS3",
    "sse-joins-without-newlines": "SS3",
    "sse-leaves-base64": "SS3",
    "sse-ignores-bad-control": "SS4",
    "sse-starts-over": "SS2",
    "sse-delivers-half-events": "SS2",
    "sse-goes-on-after-the-end": "SS5",
    "cursor-is-forgotten": "CU1",
    "query-unsorted": "CU2",
    "never-retries": "FA1",
    "ignores-retry-after": "FA2",
    "retries-refusals": "FA3",
    "accepts-cut-bodies": "FA4",
    "accepts-any-200": "FA4",
    "headers-computed-once": "DY1",
    "not-found-unexpected": "ER1",
    "messages-without-path": "ER1",
    "validates-nothing": "VA1",
    "refuses-every-option": "VA1",
    "up-to-date-is-missing": "RE1",
    "closed-but-not-up-to-date": "CL4",
}
MUTANT = sys.argv[1] if len(sys.argv) > 1 else ""
FEATURES = [
    "batching",
    "sse",
    "longPoll",
    "auto",
    "streaming",
    "dynamicHeaders",
    "retryOptions",
    "strictZeroValidation",
]
PASSING = {429, 500, 502, 503, 504}
Command = dict[str, Any]
Result = dict[str, Any]


def wrong(name: str) -> bool:
    assert name in MUTANTS, name
    return name == MUTANT


class Failure(Exception):
    def __init__(self, code: str, why: str, status: int | None = None) -> None:
        super().__init__(why)
        self.code, self.status = code, status


class Late(Exception):
    """There is no time left."""


class Answer:
    def __init__(self, status: int, headers: list[tuple[str, str]], body: bytes = b"") -> None:
        self.status, self.body = status, body
        self._headers = {name.lower(): value for name, value in headers}

    def get(self, name: str) -> str | None:
        return self._headers.get(name.lower())

    def says(self, name: str) -> bool:
        return (self.get(name) or "").lower() == "true"

    @property
    def next_offset(self) -> str:
        offset = self.get("Stream-Next-Offset")
        if offset is None:
            if wrong("accepts-any-200"):
                return "-1"
            raise Failure("PARSE_ERROR", "an answer without Stream-Next-Offset")
        return offset


class Client:
    def __init__(self, url: str) -> None:
        self.host = urlsplit(url).netloc
        self.headers: dict[str, Callable[[], str]] = {}
        self.params: dict[str, Callable[[], str]] = {}
        self.sent: Result = {}
        self._kept: dict[str, str] = {}

    def send(
        self,
        method: str,
        path: str,
        *,
        headers: dict[str, str] | None = None,
        params: dict[str, str] | None = None,
        body: bytes = b"",
        safe: bool = True,
        timeout_s: float = 20.0,
    ) -> Answer:
        """Send a request, again if that is safe, and read the whole answer."""
        deadline = time.monotonic() + timeout_s
        for attempt in range(6):
            pause_s = 0.02 * 2**attempt
            try:
                connection, response = self.open(method, path, headers, params, body, deadline)
                try:
                    content = response.read()
                except http.client.IncompleteRead as error:
                    if not wrong("accepts-cut-bodies"):
                        raise
                    content = error.partial
                finally:
                    connection.close()
            except TimeoutError:
                raise Late from None
            except (OSError, http.client.HTTPException) as error:
                if (not safe and not wrong("append-is-repeated")) or attempt == 5 or wrong("never-retries"):
                    raise Failure("NETWORK_ERROR", f"{type(error).__name__}: {error}") from None
            else:
                answer = Answer(response.status, response.getheaders(), content)
                passing = answer.status in PASSING and (safe or answer.status == 429)
                if wrong("retries-refusals"):
                    passing = passing or answer.status >= 400
                if not passing or attempt == 5 or wrong("never-retries"):
                    return answer
                if not wrong("ignores-retry-after"):
                    pause_s = max(pause_s, retry_after_s(answer.get("Retry-After")))
            if wrong("producer-retries-with-next-seq") and headers and "Producer-Seq" in headers:
                headers["Producer-Seq"] = str(int(headers["Producer-Seq"]) + 1)
            time.sleep(min(pause_s, max(0.0, deadline - time.monotonic())))
        raise AssertionError

    def open(
        self,
        method: str,
        path: str,
        headers: dict[str, str] | None,
        params: dict[str, str] | None,
        body: bytes,
        deadline: float,
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """Send a request and read the head of its answer."""
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise Late
        computed = {name: self._compute(name, value) for name, value in self.headers.items()}
        query = {name: self._compute(name, value) for name, value in self.params.items()}
        self.sent = {"headersSent": dict(computed), "paramsSent": dict(query)}
        query |= params or {}
        pairs = list(query.items()) if wrong("query-unsorted") else sorted(query.items())
        safe = "+&=/" if wrong("read-does-not-encode-offsets") else ""
        text = "&".join(f"{quote(name, safe='')}={quote(value, safe=safe)}" for name, value in pairs)
        connection = http.client.HTTPConnection(self.host, timeout=left_s)
        target = path + (f"?{text}" if text else "")
        connection.request(method, target, body or None, {**computed, **(headers or {})})
        return connection, connection.getresponse()

    def _compute(self, name: str, value: Callable[[], str]) -> str:
        if wrong("headers-computed-once"):
            return self._kept.setdefault(name, value())
        return value()


def retry_after_s(text: str | None) -> float:
    if text is None:
        return 0.0
    if text.isdecimal():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except ValueError:
        return 0.0


def is_json(content_type: str | None) -> bool:
    return (content_type or "").partition(";")[0].strip().lower() == "application/json"


class Events:
    """An incremental parser of events."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text = ""
        self._kind, self._data = "", list[str]()

    def feed(self, piece: bytes) -> Iterator[tuple[str, str]]:
        self._text += self._decoder.decode(piece)
        end = "\n" if wrong("sse-only-lf") else "\r\n|\n|\r(?!$)"
        while True:
            if wrong("sse-splits-at-every-line-separator"):
                lines = self._text.splitlines(keepends=True)
                if not lines or lines[0] == lines[0].rstrip("\n\r\u2028\u0085"):
                    return
                line, self._text = lines[0].rstrip("\n\r\u2028\u0085"), self._text[len(lines[0]) :]
            else:
                found = re.search(end, self._text)
                if not found:
                    return
                line, self._text = self._text[: found.start()], self._text[found.end() :]
            yield from self._line(line)

    def rest(self) -> Iterator[tuple[str, str]]:
        if wrong("sse-delivers-half-events"):
            yield from self._line(self._text)
            yield from self._line("")

    def _line(self, line: str) -> Iterator[tuple[str, str]]:
        if not line:
            if self._data:
                yield self._kind, ("" if wrong("sse-joins-without-newlines") else "\n").join(self._data)
            self._kind, self._data = "", []
            return
        name, _, value = line.partition(":")
        value = value.strip() if wrong("sse-trims-lines") else value.removeprefix(" ")
        if name == "event":
            self._kind = value
        elif name == "data":
            self._data.append(value)


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
            self._events() if self.live == "sse" else self._polls()
        except Late:
            if not self.live:
                raise Failure("TIMEOUT", "no answer in time") from None
            self.up_to_date = True
        return self._result()

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


def failure(kind: str, answer: Answer, *, seq: bool = False) -> Failure:
    status = answer.status
    code = "UNEXPECTED_STATUS"
    if status == 404 and not wrong("not-found-unexpected"):
        code = "NOT_FOUND"
    if status == 400 and kind == "read":
        code = "INVALID_OFFSET"
    if status == 409:
        closed = answer.says("Stream-Closed") and not wrong("closed-is-a-conflict")
        gap = answer.get("Producer-Expected-Seq") is not None
        code = "STREAM_CLOSED" if closed else "SEQUENCE_CONFLICT" if seq or gap else "CONFLICT"
    return Failure(code, f"status {status}", status)


class Producer:
    def __init__(self, epoch: int) -> None:
        self.epoch, self.seq = epoch, 0
        self.closed: Answer | None = None


class Adapter:
    def __init__(self) -> None:
        self.client = Client("")
        self.types: dict[str, str] = {}
        self.closed: set[str] = set()
        self.producers: dict[tuple[str, str, int], Producer] = {}

    def answer(self, command: Command) -> Result:
        kind = command["type"]
        try:
            result = getattr(self, "do_" + kind.replace("-", "_"))(command)
        except Late:
            error = Failure("TIMEOUT", "no answer in time")
        except Failure as raised:
            error = raised
        else:
            return {"type": kind, "success": True, **result}
        message = str(error)
        if "path" in command and not wrong("messages-without-path"):
            message = f"{command['path']}: {message}"
        failed = {"type": "error", "success": False, "commandType": kind, "errorCode": error.code}
        return {**failed, "message": message, **({"status": error.status} if error.status else {})}

    def do_init(self, command: Command) -> Result:
        self.client = Client(command["serverUrl"])
        return {"clientName": "plain", "clientVersion": "1", "features": dict.fromkeys(FEATURES, True)}

    def do_create(self, command: Command) -> Result:
        path, content_type = command["path"], command.get("contentType", "application/octet-stream")
        headers = {"Content-Type": content_type, **command.get("headers", {})}
        body = command.get("data", "").encode()
        if command.get("closed") and not wrong("create-forgets-closed"):
            headers["Stream-Closed"] = "true"
        if "ttlSeconds" in command and not wrong("create-forgets-ttl"):
            headers["Stream-TTL"] = str(command["ttlSeconds"])
        if "expiresAt" in command:
            headers["Stream-Expires-At"] = command["expiresAt"]
        later = body if wrong("create-content-by-append") else b""
        answer = self.client.send("PUT", path, headers=headers, body=b"" if later else body)
        if answer.status not in {200, 201}:
            raise failure("create", answer)
        if later:
            self.client.send("POST", path, headers={"Content-Type": content_type}, body=later)
        self.types[path] = content_type
        return {"status": 201 if wrong("create-always-201") else answer.status, "offset": answer.next_offset}

    def do_connect(self, command: Command) -> Result:
        found = self.do_head(command)
        self.types[command["path"]] = found["contentType"] or ""
        return {"status": 200, "offset": found["offset"]}

    def do_head(self, command: Command) -> Result:
        answer = self.client.send("HEAD", command["path"], headers=command.get("headers"))
        if answer.status != 200:
            raise failure("head", answer)
        return {
            "status": 200,
            "offset": answer.next_offset,
            "contentType": None if wrong("head-forgets-the-type") else answer.get("Content-Type"),
            "streamClosed": answer.says("Stream-Closed"),
        }

    def do_delete(self, command: Command) -> Result:
        if wrong("delete-does-nothing"):
            self.do_head(command)
            return {"status": 200}
        answer = self.client.send("DELETE", command["path"], headers=command.get("headers"))
        if answer.status not in {200, 204}:
            raise failure("delete", answer)
        self.types.pop(command["path"], None)
        return {"status": 200}

    def do_append(self, command: Command) -> Result:
        path = command["path"]
        body = base64.b64decode(command["data"]) if command.get("binary") else self._encoded(command)
        headers = {"Content-Type": self._type(path), **command.get("headers", {})}
        if "seq" in command and not wrong("append-without-seq"):
            headers["Stream-Seq"] = str(command["seq"])
        answer = self.client.send("POST", path, headers=headers, body=body, safe=False)
        if answer.status not in {200, 204}:
            raise failure("append", answer, seq="seq" in command)
        return {"status": 200, "offset": answer.next_offset, **self.client.sent}

    def _encoded(self, command: Command) -> bytes:
        text = command["data"]
        if wrong("append-strips"):
            text = text.strip()
        if wrong("append-as-latin-1"):
            return str(text).encode("latin-1", errors="replace")
        if wrong("json-is-printed-again") and is_json(self.types.get(command["path"])):
            return compact(json.loads(text))
        return str(text).encode()

    def _type(self, path: str) -> str:
        known = self.types.get(path, "application/octet-stream")
        return known.partition(";")[0] if wrong("append-bare-content-type") else known

    def do_close(self, command: Command) -> Result:
        path, body = command["path"], command.get("data", "").encode()
        headers = {} if wrong("close-without-header") else {"Stream-Closed": "true"}
        if body:
            headers["Content-Type"] = self._type(path)
        if body and wrong("close-message-first"):
            self.client.send("POST", path, headers={"Content-Type": self._type(path)}, body=body, safe=False)
            body = b""
        answer = self.client.send("POST", path, headers=headers, body=body, safe=not body)
        if answer.status not in {200, 204}:
            raise failure("close", answer)
        if wrong("close-again-is-an-error") and path in self.closed:
            raise Failure("STREAM_CLOSED", "closed before", 409)
        self.closed.add(path)
        return {} if wrong("final-offset-is-missing") else {"finalOffset": answer.next_offset}

    def do_read(self, command: Command) -> Result:
        return Reading(self.client, command, self.types.get(command["path"])).run()

    # -- Producers -------------------------------------------------------------------------------

    def _producer(self, command: Command) -> Producer:
        key = (command["path"], command["producerId"], command.get("epoch", 0))
        return self.producers.setdefault(key, Producer(command.get("epoch", 0)))

    def _post(self, command: Command, body: bytes, *, close: bool = False) -> Answer:
        """One stamped request; with permission, once more in a claimed epoch."""
        producer, path = self._producer(command), command["path"]
        claimed = False
        while True:
            headers = {
                **command.get("headers", {}),
                "Producer-Id": command["producerId"],
                "Producer-Epoch": str(producer.epoch),
                "Producer-Seq": str(producer.seq),
            }
            if close and wrong("producer-close-without-stamp"):
                headers = dict(command.get("headers", {}))
            if body:
                headers["Content-Type"] = self._type(path)
            if close:
                headers["Stream-Closed"] = "true"
            answer = self.client.send(
                "POST", path, headers=headers, body=body, safe=not wrong("producer-gives-up")
            )
            if answer.status in {200, 204}:
                if not wrong("producer-never-counts"):
                    producer.seq += 1
                return answer
            current = answer.get("Producer-Epoch")
            may = command.get("autoClaim") or wrong("producer-always-claims")
            if answer.status != 403 or current is None or not may or claimed:
                raise failure("idempotent-append", answer)
            producer.epoch = int(current) + (0 if wrong("producer-claims-same-epoch") else 1)
            producer.seq = 1 if wrong("producer-keeps-seq-when-claiming") else 0
            claimed = True

    def do_idempotent_append(self, command: Command) -> Result:
        self._post(command, command["data"].encode())
        return {"status": 200}

    def do_idempotent_append_batch(self, command: Command) -> Result:
        items = [item.encode() for item in command["items"]]
        if wrong("batch-reversed"):
            items.reverse()
        if wrong("batch-one-by-one"):
            for item in items:
                self._post(command, item)
        elif is_json(self.types.get(command["path"])):
            self._post(command, b"[" + b",".join(items) + b"]")
        else:
            self._post(command, b"".join(items))
        return {"status": 200}

    def do_idempotent_close(self, command: Command) -> Result:
        producer = self._producer(command)
        if producer.closed is None or wrong("producer-close-only-once"):
            body = b"" if wrong("producer-close-forgets-message") else command.get("data", "").encode()
            producer.closed = self._post(command, body, close=True)
        return {"status": 200, "finalOffset": producer.closed.next_offset}

    def do_idempotent_detach(self, command: Command) -> Result:
        if wrong("detach-closes"):
            self._post(command, b"", close=True)
        self.producers.pop((command["path"], command["producerId"], command.get("epoch", 0)), None)
        return {"status": 200}

    # -- The rest --------------------------------------------------------------------------------

    def do_set_dynamic_header(self, command: Command) -> Result:
        self.client.headers[command["name"]] = computation(command)
        return {}

    def do_set_dynamic_param(self, command: Command) -> Result:
        self.client.params[command["name"]] = computation(command)
        return {}

    def do_clear_dynamic(self, command: Command) -> Result:
        self.client.headers.clear()
        self.client.params.clear()
        return {}

    def do_validate(self, command: Command) -> Result:
        target = command["target"]
        least = {"epoch": 0, "maxBatchBytes": 1, "maxRetries": 0, "initialDelayMs": 1, "multiplier": 1}
        bad = [name for name, low in least.items() if target.get(name, low) < low]
        if target.get("producerId", "x") == "":
            bad.append("producerId")
        if target.get("maxDelayMs", 1e9) < target.get("initialDelayMs", 0):
            bad.append("maxDelayMs")
        if wrong("refuses-every-option"):
            bad = list(target)
        if bad and not wrong("validates-nothing"):
            raise Failure("INVALID_ARGUMENT", f"{', '.join(bad)} makes no sense")
        return {}


def computation(command: Command) -> Callable[[], str]:
    count = 0

    def value() -> str:
        nonlocal count
        count += 1
        now, token = str(int(time.time() * 1000)), str(command.get("initialValue", ""))
        return {"counter": str(count), "timestamp": now, "token": token}[command["valueType"]]

    return value


def main() -> None:
    assert not MUTANT or MUTANT in MUTANTS, MUTANT
    adapter = Adapter()
    for line in sys.stdin:
        command = json.loads(line)
        if command["type"] == "shutdown":
            return
        print(json.dumps(adapter.answer(command)), flush=True)


if __name__ == "__main__":
    main()
