"""`millstream append`: append lines, files or bytes, in batches."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import typer

from millstream.cli import targets
from millstream.cli.exits import Exit, Failure, explain
from millstream.cli.inputs import (
    BadLineError,
    Bunch,
    Form,
    Source,
    blocks,
    form_of,
    given_messages,
    messages,
    sources,
)
from millstream.cli.output import OutputFormat, StandardOutput
from millstream.cli.progress import ProgressBar, rate
from millstream.cli.targets import Profile, Stream, Token, Url
from millstream.cli.units import counted, duration, size
from millstream.cli.writers import Plain, Stamped, Writer
from millstream.client.core import bodies, errors

BLOCK_BYTES: Final = 64 * 1024
"""The block size of binary input, so that the same input gives the same batches."""


def append(
    stream: Stream,
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Files to append; standard input if none, or -.", metavar="FILE"),
    ] = None,
    message: Annotated[
        list[str] | None,
        typer.Option("--message", "-m", help="A message instead of input; repeatable.", metavar="TEXT"),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Each line is a JSON message.")] = False,
    text: Annotated[
        bool, typer.Option("--text", help="Each line is text; a JSON stream gets strings.")
    ] = False,
    binary: Annotated[bool, typer.Option("--binary", help="The input is bytes, without lines.")] = False,
    producer: Annotated[
        str | None,
        typer.Option(
            help="Store each message exactly once, across failures; the name of this producer.",
            metavar="NAME",
        ),
    ] = None,
    epoch: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="With --producer: repeating the same input with the same epoch stores only what is missing. "
            "[default: a new one]",
            metavar="N",
        ),
    ] = None,
    expected_offset: Annotated[
        str | None,
        typer.Option(
            help="Append only if the stream ends at this offset, and nobody else appends in between.",
            metavar="OFFSET",
        ),
    ] = None,
    close: Annotated[bool, typer.Option("--close", help="Close the stream after the last message.")] = False,
    output_format: OutputFormat = None,
    url: Url = None,
    token: Token = None,
    profile: Profile = None,
) -> None:
    """Append lines from standard input or files, each a message. --message needs no input.

    The stream's content type decides how input is read: JSON takes one message per line, text takes lines,
    anything else takes bytes.
    """
    chosen = [form for form, given in ((Form.JSON, json), (Form.TEXT, text), (Form.BINARY, binary)) if given]
    if len(chosen) > 1:
        raise Failure(Exit.USAGE, "--json, --text and --binary exclude each other", "Give one of them")
    if epoch is not None and producer is None:
        raise Failure(Exit.USAGE, "--epoch needs --producer", "Give a name with --producer")
    if producer is not None and not (producer and producer.isascii() and producer.isprintable()):
        raise Failure(
            Exit.USAGE, f"{producer!r} is not a valid producer name", "Use ASCII letters and digits"
        )
    if producer is not None and expected_offset is not None:
        raise Failure(
            Exit.USAGE,
            "--producer and --expected-offset exclude each other",
            "A producer's batches are sent before the ones ahead of them are answered",
        )
    if message and files:
        raise Failure(Exit.USAGE, "--message and files exclude each other", "Give one of them")
    found = [] if message else sources(files)
    target = targets.server(url, token, profile).stream(stream)
    head = target.head()
    if head.stream_closed:
        raise errors.StreamClosedError(url=target.url, final_offset=head.offset)
    target.content_type = head.content_type
    into_json = bodies.is_json(head.content_type)
    form = chosen[0] if chosen else form_of(head.content_type)
    if into_json and form is Form.BINARY:
        raise Failure(Exit.USAGE, "A JSON stream takes no bytes", "--text makes a string of each line")
    if any(source.path is None for source in found) and sys.stdin.isatty():
        targets.note("Type lines; Ctrl+D ends the input.")
    writer = Plain(target, expected_offset) if producer is None else Stamped(target, producer, epoch=epoch)
    output = StandardOutput(output_format)
    if message:
        given = given_messages(message, form, into_json=into_json)
        _append_given(writer, given, form, output, close=close)
        return
    _append(
        writer,
        found,
        form,
        output,
        into_json=into_json,
        whole_blocks=epoch is not None and form is Form.BINARY,
        close=close,
    )


def _append(
    writer: Writer,
    found: list[Source],
    form: Form,
    output: StandardOutput,
    *,
    into_json: bool,
    whole_blocks: bool,
    close: bool,
) -> None:
    sizes = [source.size for source in found]
    known = [one for one in sizes if one is not None]
    typed = any(source.path is None for source in found) and sys.stdin.isatty()
    total = sum(known) if len(known) == len(sizes) else None
    with ProgressBar("appending", total_bytes=total, hidden=typed) as meter:
        try:
            for source in found:
                chunks = blocks(source.chunks(), BLOCK_BYTES) if whole_blocks else source.chunks()
                _take(writer, meter, source.name, messages(chunks, form, into_json=into_json))
            final_offset = writer.finish(close=close)
        except errors.MillstreamError as error:
            raise _told(error, writer) from error
    _report(output, writer, meter, form, final_offset, meter.seconds, closed=close)


def _append_given(
    writer: Writer, given: list[bytes], form: Form, output: StandardOutput, *, close: bool
) -> None:
    with ProgressBar("appending", hidden=True) as meter:
        try:
            writer.write(given)
            meter.advance(len(given), sum(map(len, given)))
            final_offset = writer.finish(close=close)
        except errors.MillstreamError as error:
            raise _told(error, writer) from error
    _report(output, writer, meter, form, final_offset, meter.seconds, closed=close)


def _take(writer: Writer, meter: ProgressBar, name: str, bunches: Iterator[Bunch]) -> None:
    """Write the messages of a source; everything before an invalid line is stored."""
    try:
        for bunch in bunches:
            writer.write(bunch.messages)
            meter.advance(len(bunch.messages), bunch.bytes)
    except BadLineError as bad:
        writer.write(bad.before)
        writer.finish(close=False)
        before = f"{counted(writer.stored, 'message', 'messages')} before it"
        raise Failure(
            Exit.BAD_INPUT,
            f"Line {bad.line} of {name} {bad.reason}; {before} {_were(writer.stored)} appended",
            bad.hint,
        ) from None


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


def _told(error: errors.MillstreamError, writer: Writer) -> Failure:
    failure = explain(error)
    stored = f" ({counted(writer.stored, 'message was', 'messages were')} appended before)"
    return Failure(failure.code, failure.message + stored, failure.hint)


def _report(
    output: StandardOutput,
    writer: Writer,
    meter: ProgressBar,
    form: Form,
    offset: str | None,
    seconds: float,
    *,
    closed: bool,
) -> None:
    repeated = (
        f" ({counted(writer.duplicates, 'batch', 'batches')} had been stored before)"
        if writer.duplicates
        else ""
    )
    what = (
        size(meter.bytes)
        if form is Form.BINARY
        else counted(meter.items, *(("message", "messages") if form is Form.JSON else ("line", "lines")))
        + f", {size(meter.bytes)}"
    )
    ending = f"; the stream {'is closed' if closed else 'ends'} at {offset}" if offset else ""
    pace = f"in {duration(seconds)} ({rate(meter.items, meter.bytes, seconds)})"
    output.result(
        f"appended {what} {pace}{repeated}{ending}",
        {
            "messages": meter.items,
            "bytes": meter.bytes,
            "seconds": round(seconds, 3),
            "duplicateBatches": writer.duplicates,
            "offset": offset,
            "closed": closed,
        },
    )
