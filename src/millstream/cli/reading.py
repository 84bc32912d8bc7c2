"""What `read` and `tail` share: where to begin, what to show, when to end."""

import sys
from datetime import UTC, datetime
from typing import Annotated

import typer

from millstream.cli import last as lasts
from millstream.cli import moments, targets, terminals
from millstream.cli.contents import Shape, Writer, writer
from millstream.cli.exits import Exit, Failure
from millstream.cli.following import Reading
from millstream.cli.output import StandardOutput
from millstream.cli.positions import BEGINNING
from millstream.cli.progress import ProgressBar
from millstream.client.core import bodies
from millstream.client.core.plans.origins import since as since_time

Offset = Annotated[
    str | None,
    typer.Option(help="Begin here: -1 the beginning, now the end, or an offset.", metavar="OFFSET"),
]
Since = Annotated[
    str | None,
    typer.Option(
        help="Begin with what arrived since a time: 10m, 2h or 3d ago, 12:00 today, or 2030-01-31T12:00:00Z.",
        metavar="TIME",
    ),
]

Format = Annotated[
    Shape,
    typer.Option(
        "--format",
        help="lines: JSON messages one per line, other content as it is; json: an object with its offset for "
        "each; raw: as the server sends it.",
    ),
]
Offsets = Annotated[
    bool, typer.Option("--offsets", help="Begin each line with the offset after its message, and a tab.")
]


Times = Annotated[
    bool, typer.Option("--times", help="Begin each line with the time when its message arrived, and a tab.")
]


def show_stream(
    name: str,
    server: targets.Server,
    *,
    offset: str | None,
    until: str | None,
    last: int | None,
    follows: bool,
    shape: Shape = Shape.LINES,
    offsets: bool = False,
    since: str | None = None,
    times: bool = False,
) -> None:
    """Write a stream's content from one offset to another, or to its end."""
    begins = [("--offset", offset), ("--last", last), ("--since", since)]
    given = [option for option, value in begins if value is not None]
    if len(given) > 1:
        raise Failure(Exit.USAGE, f"{given[0]} and {given[1]} exclude each other", "Both say where to begin")
    if offset == "":
        raise Failure(Exit.USAGE, "--offset is empty", "-1 is the beginning, now the end")
    if until is not None and last is not None:
        raise Failure(
            Exit.USAGE, "--until and --last exclude each other", "--last counts from the current end"
        )
    is_offset = until is not None and "_" in until
    if is_offset and offset is not None and offset[:1].isdigit() and offset > (until or ""):
        raise Failure(Exit.USAGE, "--until comes before --offset", "Exchange them")
    if offsets and shape is not Shape.LINES:
        raise Failure(Exit.USAGE, "--offsets is for --format lines", "--format json has offsets already")
    if times and shape is Shape.RAW:
        raise Failure(Exit.USAGE, "--times is not for --format raw", "Choose --format lines or json")
    begin = offset or BEGINNING if since is None else moments.origin(since, "--since")
    end = until if until is None or is_offset else _past(until)
    stream = server.stream(name)
    head = stream.head()
    if (times or since is not None or end != until) and "time" not in head.extensions:
        raise Failure(
            Exit.FAILED, "This server does not say when messages arrived", "Use --offset and --until OFFSET"
        )
    if end is not None and end != until:
        end = server.stream(name, {"offset": end}).head().start_offset
    is_json = bodies.is_json(head.content_type)
    output = StandardOutput()
    content = writer(output, shape, is_json=is_json, offsets=offsets, times=times)
    start, closed = begin, False
    if last is not None:
        is_found = lasts.EXTENSION in head.extensions
        is_counted = is_json or times  # by the server, rather than lines here
        start = lasts.origin(last, lines=not is_counted) if is_found else BEGINNING
        if not is_found or not is_counted:
            ending = lasts.find(server, stream.url, start, last, is_json=is_json)
            content.pieces(ending.pieces)
            start, closed = ending.offset, ending.stream_closed
    try:
        if not closed and (follows or last is None or start.startswith(lasts.EXTENSION)):
            reading = Reading(server, stream.url, offset=start, follows=follows, until=end, times=times)
            start, closed = _show(reading, content, output)
    finally:
        content.end()
    if closed and output.is_terminal and sys.stderr.isatty():
        end = terminals.inert_line(f"-- closed at {start} --")
        targets.note(terminals.styled(end, "dim", colours=output.colours))


def _show(reading: Reading, content: Writer, output: StandardOutput) -> tuple[str, bool]:
    before = reading.start_offset
    with ProgressBar("reading", hidden=not output.is_file) as meter:
        for chunk in reading.chunks():
            content.show(chunk.data, before, chunk.offset, chunk.last_time)
            before = chunk.offset
            meter.advance(0, len(chunk.data))
    return reading.offset, reading.stream_closed


def _past(until: str) -> str:
    """Give the offset of what arrived at a time that is over, or later."""
    moment = moments.parse(until, "--until")
    if moment > datetime.now(UTC):
        raise Failure(
            Exit.USAGE, "--until is in the future", "Omit it to follow the stream, and stop with Ctrl+C"
        )
    return since_time(moment)
