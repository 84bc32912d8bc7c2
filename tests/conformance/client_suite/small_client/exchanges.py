"""Requests, sent again where that is safe, and their answers."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote, urlsplit

from mutants import wrong

PASSING = {429, 500, 502, 503, 504}


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
        self.sent: dict[str, Any] = {}
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
