"""The answers of a conforming server: a small implementation of the protocol.

`answer` is called with the scene's lock held and returns a message or a stream of events. Deliberate
faults are added by the caller, not here.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from millstream_conformance.client.scenes import Request, Scene
from millstream_conformance.client.streams import Refusal, Stamp, Stream, elements, is_text

KEEP_ALIVE_S = 20.0


@dataclass
class Answer:
    """One answer. With `events` the body is a stream without a known length."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    events: Iterator[bytes] | None = None


def answer(scene: Scene, request: Request) -> Answer:
    """The answer of a conforming server."""
    methods = {"PUT": _create, "POST": _append, "GET": _get, "HEAD": _head, "DELETE": _delete}
    handler = methods.get(request.method)
    if handler is None:
        return Answer(405, {"Allow": ", ".join(methods)})
    return handler(scene, request)


def problem(status: int, code: str, headers: dict[str, str] | None = None) -> Answer:
    """A problem document."""
    body = json.dumps({"status": status, "code": code, "title": code.lower().replace("_", " ")}).encode()
    return Answer(status, {"Content-Type": "application/problem+json", **(headers or {})}, body)


def _create(scene: Scene, request: Request) -> Answer:
    wanted = Stream(
        request.header("Content-Type") or "application/octet-stream",
        ttl=request.header("Stream-TTL"),
        expires_at=request.header("Stream-Expires-At"),
        closed=_says_closed(request),
        odd_offsets=scene.odd_offsets,
    )
    found = scene.streams.get(request.path)
    if found is not None:
        same = _configuration(found) == _configuration(wanted)
        return Answer(200, _about(found)) if same else problem(409, "STREAM_EXISTS")
    try:
        if request.body:
            wanted.add(request.body)
    except ValueError:
        return problem(400, "INVALID_JSON")
    scene.streams[request.path] = wanted
    scene.changed.notify_all()
    return Answer(201, {"Location": f"http://{request.header('Host')}{request.path}", **_about(wanted)})


def _configuration(stream: Stream) -> tuple[object, ...]:
    return stream.content_type.lower(), stream.ttl, stream.expires_at, stream.closed


def _append(scene: Scene, request: Request) -> Answer:
    stream = scene.streams.get(request.path)
    if stream is None:
        return problem(404, "STREAM_NOT_FOUND")
    close, content_type = _says_closed(request), request.header("Content-Type") or ""
    if not request.body and not close:
        return problem(400, "EMPTY_BODY")
    stamp = _stamp(request)
    if isinstance(stamp, str):
        return problem(400, stamp)
    try:
        if stream.json and request.body and not elements(request.body):
            return problem(400, "EMPTY_ARRAY")
        outcome = stream.append(request.body, content_type, stamp, request.header("Stream-Seq"), close=close)
    except ValueError:
        return problem(400, "INVALID_JSON")
    if isinstance(outcome, Refusal):
        return problem(outcome.status, outcome.code, outcome.headers)
    scene.changed.notify_all()
    headers = {"Stream-Next-Offset": stream.offset(stream.tail)}
    if stream.closed:
        headers["Stream-Closed"] = "true"
    if outcome.epoch is not None:
        headers |= {"Producer-Epoch": str(outcome.epoch), "Producer-Seq": str(outcome.seq)}
    return Answer(200 if stamp and not outcome.duplicate else 204, headers)


def _stamp(request: Request) -> Stamp | str | None:
    """The producer of a request, None without one, or an error code for bad headers."""
    texts = [request.header(name) for name in ("Producer-Id", "Producer-Epoch", "Producer-Seq")]
    match texts:
        case [None, None, None]:
            return None
        case [str(producer), str(epoch), str(seq)] if producer and epoch.isdecimal() and seq.isdecimal():
            return Stamp(producer, int(epoch), int(seq))
        case _:
            return "BAD_PRODUCER_HEADERS"


def _head(scene: Scene, request: Request) -> Answer:
    stream = scene.streams.get(request.path)
    if stream is None:
        return Answer(404, {"Cache-Control": "no-store"})
    return Answer(200, {"Cache-Control": "no-store", **_about(stream)})


def _delete(scene: Scene, request: Request) -> Answer:
    if scene.streams.pop(request.path, None) is None:
        return problem(404, "STREAM_NOT_FOUND")
    scene.changed.notify_all()
    return Answer(204)


def _get(scene: Scene, request: Request) -> Answer:
    stream = scene.streams.get(request.path)
    if stream is None:
        return problem(404, "STREAM_NOT_FOUND")
    live, offset = request.param("live"), request.param("offset")
    if live not in {None, "long-poll", "sse"} or (live and offset is None):
        return problem(400, "BAD_LIVE_MODE")
    position = stream.position("-1" if offset is None else offset)
    if position is None:
        return problem(400, "INVALID_OFFSET")
    if live == "sse":
        return _events(scene, request.path, stream, position)
    if live == "long-poll" and not _wait_for_change(scene, request.path, stream, position):
        return problem(404, "STREAM_NOT_FOUND")
    return _chunk(scene, request, stream, position)


def _wait_for_change(scene: Scene, path: str, stream: Stream, position: int) -> bool:
    """Wait for new data, closure or the timeout; False when the stream was deleted."""
    deadline = time.monotonic() + scene.long_poll_s
    while position >= stream.tail and not stream.closed and not scene.over:
        left = deadline - time.monotonic()
        if left <= 0:
            break
        scene.wait(left)
        if scene.streams.get(path) is not stream:
            return False
    return True


def _chunk(scene: Scene, request: Request, stream: Stream, position: int) -> Answer:
    body, end = stream.read(position, scene.chunk_bytes)
    headers = {"Stream-Next-Offset": stream.offset(end), "Content-Type": stream.content_type}
    if end >= stream.tail:
        headers["Stream-Up-To-Date"] = "true"
        if stream.closed:
            headers["Stream-Closed"] = "true"
    if request.param("live") and not stream.closed:
        headers["Stream-Cursor"] = next_cursor(scene)
    if request.param("live") and end == position:
        del headers["Content-Type"]
        return Answer(204, {"Cache-Control": "no-store", **headers})
    if request.param("offset") == "now" and end == position:
        return Answer(200, {"Cache-Control": "no-store", **headers}, b"[]" if stream.json else b"")
    mark = "closed" if "Stream-Closed" in headers else "open"
    headers["ETag"] = f'"{request.path}:{position}:{end}:{mark}"'
    headers["Cache-Control"] = "public, max-age=60, stale-while-revalidate=300"
    if request.header("If-None-Match") == headers["ETag"]:
        return Answer(304, headers)
    return Answer(200, headers, body)


def next_cursor(scene: Scene) -> str:
    """A cursor that a client cannot guess."""
    scene.cursors += 1
    return f"c{scene.cursors}.{scene.name}"


def _events(scene: Scene, path: str, stream: Stream, position: int) -> Answer:
    headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    if not is_text(stream.content_type):
        headers["Stream-SSE-Data-Encoding"] = "base64"
    return Answer(200, headers, events=_event_pieces(scene, path, stream, position))


def _event_pieces(scene: Scene, path: str, stream: Stream, position: int) -> Iterator[bytes]:
    """Each data event with its control event, until the stream ends. Call it without the lock."""
    first = True
    while True:
        with scene.changed:
            body, end = _sendable(scene, stream, position)
            while end == position and not first and not stream.closed:
                if scene.over or scene.streams.get(path) is not stream:
                    return
                scene.wait(KEEP_ALIVE_S)
                body, end = _sendable(scene, stream, position)
            piece = data_event(stream, body) if end > position else b""
            position, first = end, False
            closed = stream.closed and end >= stream.tail
            piece += _control_event(scene, stream, end, closed=closed)
        yield piece
        if closed:
            return


def _sendable(scene: Scene, stream: Stream, position: int) -> tuple[bytes, int]:
    """The bytes of the next event: for text, whole characters only."""
    body, end = stream.read(position, scene.chunk_bytes)
    if is_text(stream.content_type) and not stream.json:
        whole = body.decode(errors="ignore").encode()
        if body.startswith(whole) and (whole or not stream.closed):
            return whole, position + len(whole)
    return body, end


def data_event(stream: Stream, body: bytes) -> bytes:
    """A data event; a line that begins with a space gets one more, which the parser drops."""
    if not is_text(stream.content_type):
        lines = [base64.b64encode(body).decode()]
    else:
        lines = body.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    shown = "".join(f"data:{' ' if line.startswith(' ') else ''}{line}\n" for line in lines)
    return f"event: data\n{shown}\n".encode()


def _control_event(scene: Scene, stream: Stream, end: int, *, closed: bool) -> bytes:
    control: dict[str, object] = {"streamNextOffset": stream.offset(end)}
    if not closed:
        control["streamCursor"] = next_cursor(scene)
    if end >= stream.tail:
        control["upToDate"] = True
    if closed:
        control["streamClosed"] = True
    return f"event: control\ndata:{json.dumps(control, separators=(',', ':'))}\n\n".encode()


def _says_closed(request: Request) -> bool:
    return (request.header("Stream-Closed") or "").lower() == "true"


def _about(stream: Stream) -> dict[str, str]:
    found = {"Content-Type": stream.content_type, "Stream-Next-Offset": stream.offset(stream.tail)}
    if stream.ttl:
        found["Stream-TTL"] = stream.ttl
    if stream.expires_at:
        found["Stream-Expires-At"] = stream.expires_at
    if stream.closed:
        found["Stream-Closed"] = "true"
    return found
