"""What `read` and `tail` share: where to begin, what to show, when to end."""

import sys
from typing import Annotated

import typer

from millstream.cli import last as lasts
from millstream.cli import targets, terminals
from millstream.cli.contents import Shape, Writer, writer
from millstream.cli.exits import Exit, Failure
from millstream.cli.following import Reading
from millstream.cli.output import StandardOutput
from millstream.cli.positions import BEGINNING
from millstream.cli.progress import ProgressBar
from millstream.client.core import bodies

Offset = Annotated[
    str | None,
    typer.Option(help="Begin here: -1 the beginning, now the end, or an offset.", metavar="OFFSET"),
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
) -> None:
    """Write a stream's content from one offset to another, or to its end."""
    if offset is not None and last is not None:
        raise Failure(Exit.USAGE, "--offset and --last exclude each other", "Both say where to begin")
    if offset == "":
        raise Failure(Exit.USAGE, "--offset is empty", "-1 is the beginning, now the end")
    if until is not None and last is not None:
        raise Failure(
            Exit.USAGE, "--until and --last exclude each other", "--last counts from the current end"
        )
    if until is not None and offset is not None and offset[:1].isdigit() and offset > until:
        raise Failure(Exit.USAGE, "--until comes before --offset", "Exchange them")
    if offsets and shape is not Shape.LINES:
        raise Failure(Exit.USAGE, "--offsets is for --format lines", "--format json has offsets already")
    stream = server.stream(name)
    head = stream.head()
    is_json = bodies.is_json(head.content_type)
    output = StandardOutput()
    content = writer(output, shape, is_json=is_json, offsets=offsets)
    start, closed = offset or BEGINNING, False
    if last == 0:
        start, closed = head.offset or "now", head.stream_closed
    elif last is not None:
        ending = lasts.find(server, stream, last, is_json=is_json)
        content.pieces(ending.pieces)
        start, closed = ending.offset, ending.stream_closed
    try:
        if not closed and (follows or last is None):
            start, closed = _show(
                Reading(server, stream.url, offset=start, follows=follows, until=until), content, output
            )
    finally:
        content.end()
    if closed and output.is_terminal and sys.stderr.isatty():
        end = terminals.inert_line(f"-- closed at {start} --")
        targets.note(terminals.styled(end, "dim", colours=output.colours))


def _show(reading: Reading, content: Writer, output: StandardOutput) -> tuple[str, bool]:
    before = reading.offset
    with ProgressBar("reading", hidden=not output.is_file) as meter:
        for chunk in reading.chunks():
            content.show(chunk.data, before, chunk.offset)
            before = chunk.offset
            meter.advance(0, len(chunk.data))
    return reading.offset, reading.stream_closed
