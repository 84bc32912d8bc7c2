"""Servers that are wrong about long-polls, cursors and events."""

from __future__ import annotations

import base64
import json
import re
import time

from conformance.mutants import Memory, mutant
from conformance.proxy import Ask, Reply, Send


def with_control(reply: Reply, change: object) -> Reply:
    """Change the JSON of every control event."""

    def edit(block: str) -> str:
        if not block.startswith("event: control"):
            return block
        fields = json.loads(block.partition("data:")[2])
        changed = change(fields)  # type: ignore[operator]  # a callable
        return f"event: control\ndata:{json.dumps(changed, separators=(',', ':'))}"

    return reply.map_events(edit)


def with_data(reply: Reply, change: object) -> Reply:
    """Change the text of every data event."""
    return reply.map_events(
        lambda block: change(block) if block.startswith("event: data") else block  # type: ignore[operator]
    )


def without(field: str) -> object:
    return lambda fields: {key: value for key, value in fields.items() if key != field}


@mutant("L1")
def live_reads_start_anywhere(ask: Ask, send: Send) -> Reply:
    """Live without an offset starts at the beginning."""
    return send(ask.with_param("offset", "-1") if ask.param("live") and not ask.param("offset") else ask)


@mutant("L1")
def unknown_live_modes_are_ignored(ask: Ask, send: Send) -> Reply:
    """`live=websocket` is a catch-up read."""
    return send(ask.with_param("live", None) if ask.param("live") not in {"long-poll", "sse", ""} else ask)


@mutant("L2")
def empty_polls_are_200(ask: Ask, send: Send) -> Reply:
    """A long-poll without data is 200."""
    reply = send(ask)
    reply.status = 200 if ask.is_poll and reply.status == 204 else reply.status
    return reply


@mutant("L2")
def polls_do_not_wait(ask: Ask, send: Send) -> Reply:
    """A long-poll at the tail answers at once."""
    if not ask.is_poll:
        return send(ask)
    cursor = send(ask.copy().with_param("offset", "-1")).get("Stream-Cursor") or "1"
    reply = send(ask.copy().with_param("live", None)).set("Stream-Cursor", cursor)
    if not reply.body:
        reply.status = 204
    return reply


@mutant("L2")
def polls_have_no_cursor(ask: Ask, send: Send) -> Reply:
    """Stream-Cursor is missing."""
    return send(ask).drop("Stream-Cursor")


@mutant("L2")
def empty_polls_are_not_up_to_date(ask: Ask, send: Send) -> Reply:
    """204 without Stream-Up-To-Date."""
    reply = send(ask)
    return reply.drop("Stream-Up-To-Date") if ask.is_poll and reply.status == 204 else reply


@mutant("L2")
def empty_polls_do_not_say_where(ask: Ask, send: Send) -> Reply:
    """204 without the next offset."""
    reply = send(ask)
    return reply.drop("Stream-Next-Offset") if ask.is_poll and reply.status == 204 else reply


@mutant("L2")
def the_end_is_polled_in_vain(ask: Ask, send: Send) -> Reply:
    """A closed stream lets its readers wait."""
    reply = send(ask)
    if ask.is_poll and reply.status == 204 and reply.has("Stream-Closed"):
        time.sleep(0.5)
    return reply


@mutant("L2")
def polls_do_not_say_closed(ask: Ask, send: Send) -> Reply:
    """A long-poll never says closed."""
    return send(ask).drop("Stream-Closed") if ask.is_poll else send(ask)


@mutant("L2")
def polls_return_everything(ask: Ask, send: Send) -> Reply:
    """A reader that is woken gets the stream from its start."""
    reply = send(ask)
    if ask.is_poll and reply.status == 200:
        reply.body = send(Ask("GET", ask.path, [])).body
    return reply


@mutant("L2")
def closing_hides_the_last_data(ask: Ask, send: Send) -> Reply:
    """A last append wakes readers with the end only."""
    reply = send(ask)
    if ask.is_poll and reply.status == 200 and reply.has("Stream-Closed"):
        reply.status, reply.body = 204, b""
    return reply


@mutant("L2")
def now_polls_from_the_start(ask: Ask, send: Send) -> Reply:
    """`now` in a long-poll is the start."""
    return send(ask.with_param("offset", "-1") if ask.is_poll and ask.param("offset") == "now" else ask)


@mutant("L3")
def cursors_are_constant(ask: Ask, send: Send) -> Reply:
    """The cursor never changes."""
    reply = send(ask)
    return reply.set("Stream-Cursor", "1000") if reply.has("Stream-Cursor") else reply


@mutant("L3")
def cursors_ignore_the_client(ask: Ask, send: Send) -> Reply:
    """A client that is ahead gets the current interval."""
    return send(ask.with_param("cursor", None))


@mutant("L3")
def cursors_are_echoed(ask: Ask, send: Send) -> Reply:
    """The client's cursor comes back unchanged."""
    reply = send(ask)
    return reply.set("Stream-Cursor", ask.param("cursor")) if ask.param("cursor") and ask.is_poll else reply


@mutant("L3")
def cursors_are_timestamps(ask: Ask, send: Send) -> Reply:
    """The cursor is a Unix time."""
    reply = send(ask)
    return reply.set("Stream-Cursor", str(int(time.time()))) if reply.has("Stream-Cursor") else reply


@mutant("L3")
def cursors_jump_too_far(ask: Ask, send: Send) -> Reply:
    """Jitter is more than an hour."""
    reply = send(ask)
    if ask.param("cursor").isdigit() and reply.has("Stream-Cursor"):
        reply.set("Stream-Cursor", str(int(reply.get("Stream-Cursor")) + 500))
    return reply


@mutant("L3")
def event_cursors_ignore_the_client(ask: Ask, send: Send) -> Reply:
    """Events do not take the cursor into account."""
    return send(ask.with_param("cursor", None) if ask.param("live") == "sse" else ask)


@mutant("L4")
def events_have_a_charset(ask: Ask, send: Send) -> Reply:
    """`text/event-stream; charset=utf-8`."""
    reply = send(ask)
    return reply.set("Content-Type", "text/event-stream; charset=utf-8") if reply.is_events else reply


@mutant("L4")
def events_can_be_cached(ask: Ask, send: Send) -> Reply:
    """Events have no Cache-Control."""
    return send(ask).drop("Cache-Control") if ask.param("live") == "sse" else send(ask)


@mutant("L4")
def proxies_may_buffer(ask: Ask, send: Send) -> Reply:
    """X-Accel-Buffering is missing."""
    return send(ask).drop("X-Accel-Buffering")


@mutant("L4")
def data_lines_have_a_space(ask: Ask, send: Send) -> Reply:
    """`data: x` instead of `data:x`."""
    return send(ask).map_events(lambda block: re.sub(r"(?m)^data:", "data: ", block))


@mutant("L4")
def event_lines_have_no_space(ask: Ask, send: Send) -> Reply:
    """`event:data` instead of `event: data`."""
    return send(ask).map_events(lambda block: block.replace("event: ", "event:"))


@mutant("L4")
def leading_spaces_are_eaten(ask: Ask, send: Send) -> Reply:
    """A payload that starts with a space loses it."""
    return send(ask).map_events(lambda block: re.sub(r"(?m)^data:  ", "data: ", block))


@mutant("L4")
def carriage_returns_are_not_escaped(ask: Ask, send: Send) -> Reply:
    """A CR in a payload ends the line on the wire."""
    return with_data(send(ask), lambda block: re.sub(r"\ndata:(?=[^\n]*evil)", "\r\r", block))


@mutant("L4")
def payload_lines_are_joined(ask: Ask, send: Send) -> Reply:
    """Line breaks in payloads are lost."""
    return with_data(
        send(ask), lambda b: "event: data\ndata:" + b.partition("\ndata:")[2].replace("\ndata:", "")
    )


@mutant("L4", "G4")
def json_events_are_bare(ask: Ask, send: Send) -> Reply:
    """JSON events are not arrays."""
    return with_data(send(ask), lambda block: block.replace("data:[", "data:").removesuffix("]"))


@mutant("L4")
def base64_is_not_announced(ask: Ask, send: Send) -> Reply:
    """Stream-SSE-Data-Encoding is missing."""
    return send(ask).drop("Stream-SSE-Data-Encoding")


@mutant("L4")
def text_is_base64_too(ask: Ask, send: Send) -> Reply:
    """Text comes as base64."""
    reply = send(ask)
    if reply.is_events and not reply.has("Stream-SSE-Data-Encoding"):
        reply.set("Stream-SSE-Data-Encoding", "base64")

        def encode(block: str) -> str:
            text = block.partition("data:")[2].encode("utf-8", "surrogateescape")
            return f"event: data\ndata:{base64.b64encode(text).decode()}"

        return with_data(reply, encode)
    return reply


@mutant("L4")
def base64_is_url_safe(ask: Ask, send: Send) -> Reply:
    """The wrong base64 alphabet."""
    reply = send(ask)
    if reply.has("Stream-SSE-Data-Encoding"):
        return with_data(reply, lambda block: block.replace("+", "-").replace("/", "_"))
    return reply


@mutant("L4")
def data_and_control_are_two_writes(ask: Ask, send: Send) -> Reply:
    """A reader can be cut off between data and control."""
    return send(ask).map_pieces(lambda piece: [part + b"\n\n" for part in piece.split(b"\n\n") if part])


@mutant("L4", "L5")
def control_events_are_forgotten(ask: Ask, send: Send, memory: Memory) -> Reply:
    """Data without control."""
    return send(ask).map_pieces(
        lambda piece: [
            re.sub(rb"event: control\ndata:[^\n]*\n\n", b"", piece) if b"event: data" in piece else piece
        ]
    )


@mutant("L5")
def up_to_date_is_missing_in_events(ask: Ask, send: Send) -> Reply:
    """Control without upToDate."""
    return with_control(send(ask), without("upToDate"))


@mutant("L5")
def the_end_has_a_cursor(ask: Ask, send: Send) -> Reply:
    """A closed stream's control event invites to reconnect."""
    return with_control(send(ask), lambda fields: {"streamCursor": "1", **fields})


@mutant("L5")
def the_end_is_not_said_in_events(ask: Ask, send: Send) -> Reply:
    """Control without streamClosed."""
    return with_control(send(ask), without("streamClosed"))


@mutant("L5")
def open_streams_have_no_cursor(ask: Ask, send: Send) -> Reply:
    """Control without streamCursor."""
    return with_control(send(ask), without("streamCursor"))


@mutant("L5")
def control_events_do_not_say_where(ask: Ask, send: Send) -> Reply:
    """Control with the wrong offset."""
    return with_control(send(ask), lambda fields: {**fields, "streamNextOffset": f"{0:016d}_{0:016d}"})


@mutant("L5")
def control_events_are_nested(ask: Ask, send: Send) -> Reply:
    """Control in an envelope."""
    return with_control(send(ask), lambda fields: {**fields, "control": fields})


@mutant("L5")
def control_events_are_pretty(ask: Ask, send: Send) -> Reply:
    """Control over several lines."""
    return send(ask).map_events(
        lambda b: b.replace("data:{", "data:{\ndata:", 1) if b.startswith("event: control") else b
    )


@mutant("L5")
def flags_are_text(ask: Ask, send: Send) -> Reply:
    """`"true"` instead of `true`."""
    return with_control(send(ask), lambda fields: {k: "true" if v is True else v for k, v in fields.items()})


@mutant("L5")
def the_connection_stays_after_the_end(ask: Ask, send: Send) -> Reply:
    """The server does not hang up after streamClosed."""
    reply = send(ask)
    reply.hang_open = reply.is_events
    return reply


@mutant("L5")
def the_first_event_is_late(ask: Ask, send: Send, memory: Memory) -> Reply:
    """Nothing is sent until there is data."""

    def delayed(piece: bytes) -> list[bytes]:
        time.sleep(0.5 if b"event: data" not in piece else 0)
        return [piece]

    return send(ask).map_pieces(delayed)


@mutant("L6")
def deleted_polls_wait(ask: Ask, send: Send) -> Reply:
    """A long-poll on a deleted stream runs into its timeout."""
    started = time.monotonic()
    reply = send(ask)
    if ask.is_poll and reply.status == 404 and time.monotonic() - started > 0.03:
        time.sleep(0.5)
        reply.status = 204
    return reply


@mutant("L6")
def deleted_events_go_on(ask: Ask, send: Send, memory: Memory) -> Reply:
    """Events of a deleted stream just stop."""
    reply = send(ask)
    reply.hang_open = reply.is_events
    return reply


@mutant("L7")
def split_characters_are_replaced(ask: Ask, send: Send) -> Reply:
    """Text appends are decoded one by one."""
    if ask.method in {"PUT", "POST"} and ask.get("Content-Type") == "text/plain":
        ask.body = ask.body.decode("utf-8", "replace").encode()
    return send(ask)


@mutant("L7", "L5")
def held_back_parts_are_counted(ask: Ask, send: Send) -> Reply:
    """A control offset skips the part of a character that was held back."""

    def edit(fields: dict[str, str]) -> dict[str, str]:
        tail = send(Ask("HEAD", ask.path, [])).get("Stream-Next-Offset")
        return {**fields, "streamNextOffset": tail or fields["streamNextOffset"]}

    return with_control(send(ask), edit)
