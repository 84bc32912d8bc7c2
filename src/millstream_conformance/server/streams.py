"""One stream under test. Every method is exactly one request, except `pages` and `content`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from millstream_conformance.server.event_streams import EventStream
from millstream_conformance.server.wire import Answer, HeaderInput

if TYPE_CHECKING:
    from millstream_conformance.server.servers import Server

INHERIT = object()


def stamp(producer: str, epoch: int | str, seq: int | str) -> dict[str, str]:
    """The three headers of an idempotent producer."""
    return {"Producer-Id": producer, "Producer-Epoch": str(epoch), "Producer-Seq": str(seq)}


class Stream:
    """A path on the server with the content type that its appends declare."""

    created: Answer

    def __init__(self, server: Server, path: str, content_type: str | None) -> None:
        self.server = server
        self.path = path
        self.content_type = content_type

    def __repr__(self) -> str:
        return f"<stream {self.path} of {self.content_type}>"

    @property
    def full_path(self) -> str:
        """The path of the stream's URL, mount included: what `Stream-Forked-From` wants."""
        return self.server.address.mount + self.path

    def _typed(self, content_type: object, headers: Mapping[str, str] | None) -> dict[str, str]:
        declared = self.content_type if content_type is INHERIT else content_type
        return {**({"Content-Type": str(declared)} if declared is not None else {}), **(headers or {})}

    def put(
        self, body: bytes = b"", *, content_type: object = INHERIT, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """PUT: create, or confirm that it exists as described."""
        return self.server.request("PUT", self.path, self._typed(content_type, headers), body)

    def append(
        self,
        body: bytes,
        headers: Mapping[str, str] | None = None,
        *,
        content_type: object = INHERIT,
        chunked: bool = False,
        params: str = "",
    ) -> Answer:
        """POST a body."""
        typed = self._typed(content_type, headers)
        return self.server.request("POST", self.path, typed, body, chunked=chunked, query=params)

    def close(
        self, body: bytes = b"", headers: Mapping[str, str] | None = None, *, content_type: object = None
    ) -> Answer:
        """POST `Stream-Closed: true`, close-only or with a last body (then typed like an append)."""
        declared = INHERIT if body and content_type is None else content_type
        return self.append(body, {"Stream-Closed": "true", **(headers or {})}, content_type=declared)

    def head(self, headers: HeaderInput = (), **params: Any) -> Answer:
        """HEAD, with read parameters where a test wants them."""
        return self.server.request("HEAD", self.path, headers, query=_query(params))

    def get(
        self,
        offset: str | None = None,
        *,
        headers: HeaderInput = (),
        raw_query: str | None = None,
        timeout_s: float | None = None,
        **params: Any,
    ) -> Answer:
        """GET: a catch-up read, or another read by its parameters."""
        asked = _query({"offset": offset, **params}) if raw_query is None else raw_query
        return self.server.request("GET", self.path, headers, query=asked, timeout_s=timeout_s)

    def poll(self, offset: str, **params: Any) -> Answer:
        """A long-poll; the server may take up to 40 s."""
        return self.get(offset, live="long-poll", timeout_s=40, **params)

    def events(self, offset: str | None, headers: HeaderInput = (), **params: Any) -> EventStream:
        """A live SSE connection."""
        return self.server.events(self.path, _query({"live": "sse", "offset": offset, **params}), headers)

    def delete(self) -> Answer:
        """DELETE."""
        return self.server.request("DELETE", self.path)

    def tail(self) -> str:
        """The tail offset, from HEAD."""
        return self.head().next_offset

    def pages(self, offset: str = "-1", **params: Any) -> list[Answer]:
        """Catch-up reads from an offset until one is up to date; a page without progress fails."""
        answers = [self.get(offset, **params)]
        while not answers[-1].up_to_date:
            last = answers[-1]
            assert last.status == 200, f"reading on from {offset} gave {last!r}"
            assert last.next_offset != offset, f"{last!r} is partial and yet does not move on"
            assert len(answers) < 2000, "the tail is never reached"
            offset = last.next_offset
            answers.append(self.get(offset, **params))
        return answers

    def content(self, offset: str = "-1") -> bytes:
        """Everything from an offset to the tail, as bytes."""
        return b"".join(page.body for page in self.pages(offset))


def _query(params: Mapping[str, Any]) -> str:
    """A query string in sorted order; None leaves a parameter out."""
    given = {key: value for key, value in sorted(params.items()) if value is not None}
    return "&".join(f"{key}={quote(str(value), safe='')}" for key, value in given.items())
