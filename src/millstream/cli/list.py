"""`millstream list`: list streams, their sizes and how fast they grow."""

import time
from collections.abc import Iterator
from itertools import chain, islice
from typing import Annotated, Any

import msgspec
import typer

from millstream.cli import attributes, targets
from millstream.cli.exits import Exit, Failure
from millstream.cli.output import OutputFormat, StandardOutput
from millstream.cli.progress import activity
from millstream.cli.targets import QUICK, Profile, Token, Url
from millstream.cli.terminals import inert_line
from millstream.cli.trees import Tree
from millstream.cli.units import counted, size
from millstream.client.core.plans.listing import Listed
from millstream.client.sync import listing


class Sampled(msgspec.Struct, frozen=True):
    """A stream, and its growth in bytes per second, if measured."""

    stream: Listed
    rate: float | None = None


def list_streams(
    below: Annotated[
        str,
        typer.Argument(
            help="Only paths that begin so.", metavar="[PREFIX]", autocompletion=targets.completed
        ),
    ] = "",
    prefix: Annotated[str, typer.Option(help="The same as PREFIX.", metavar="PATH")] = "",
    glob: Annotated[
        str, typer.Option(help="Only paths that match: * within a segment, ** any segments.", metavar="GLOB")
    ] = "",
    attribute: attributes.Wanted = None,
    rates: Annotated[bool, typer.Option("--rates", help="Measure how fast they grow.")] = False,
    interval: Annotated[
        float, typer.Option(min=0.05, help="How long --rates measures.", metavar="SECONDS")
    ] = 1.0,
    output_format: OutputFormat = None,
    url: Url = None,
    token: Token = None,
    profile: Profile = None,
) -> None:
    """List the streams of a server, with their sizes. On a terminal it is a tree, in a pipe lines of JSON."""
    server = targets.server(url, token, profile)
    if below and prefix:
        raise Failure(Exit.USAGE, "PREFIX and --prefix exclude each other", "Give one of them")
    beginning = below or prefix
    start = f"/{beginning.lstrip('/')}" if beginning else ""
    found = _found(server, start, glob, attributes.parse(attribute), interval if rates else None)
    output = StandardOutput(output_format)
    if not output.is_text:
        output.records(map(_fields, found))
        return
    _show(output, found, rates=rates)


def _fields(one: Sampled) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(one.stream)
    return fields if one.rate is None else {**fields, "bytesPerSecond": round(one.rate, 1)}


def _found(
    server: targets.Server, prefix: str, glob: str, wanted: dict[str, str], interval: float | None
) -> Iterator[Sampled]:
    def walk() -> Iterator[Listed]:
        return listing.walk(
            server.url,
            prefix=prefix,
            glob=glob,
            attributes=wanted,
            headers=server.headers(server.url),
            retry=QUICK,
        )

    if interval is None:
        yield from map(Sampled, walk())
        return
    began = time.monotonic()
    with activity(f"measuring for {interval:g} s ..."):
        before = {one.path: (one.bytes, time.monotonic()) for one in walk()}
        time.sleep(max(0.0, began + interval - time.monotonic()))
    for one in walk():
        held, at = before.get(one.path, (0, began))
        yield Sampled(one, (one.bytes - held) / (time.monotonic() - at))


def _show(output: StandardOutput, found: Iterator[Sampled], *, rates: bool) -> None:
    tree = Tree()
    count = total = 0
    growth = 0.0
    first = list(islice(found, 1))  # so that an error appears before the header
    output.line(output.styled(_row("size", "growth", "content type", 0, "stream", rates=rates), "dim"))
    for one in chain(first, found):
        folders, (depth, name) = tree.place(one.stream.path)
        for at, label in folders:
            output.line(_row("", "", "", at, output.styled(inert_line(label), "blue"), rates=rates))
        state = output.styled(" closed", "dim") if one.stream.closed else ""
        kind = inert_line(one.stream.content_type.partition(";")[0])
        label = f"{output.styled(inert_line(name), 'bold')}{state}"
        speed = f"{size(one.rate)}/s" if one.rate else ""
        output.line(_row(size(one.stream.bytes), speed, kind, depth, label, rates=rates))
        count, total, growth = count + 1, total + one.stream.bytes, growth + (one.rate or 0.0)
    pace = f", {size(growth)}/s" if rates else ""
    output.line(output.styled(f"{counted(count, 'stream', 'streams')}, {size(total)}{pace}", "dim"))


def _row(held: str, speed: str, kind: str, depth: int, label: str, *, rates: bool) -> str:
    pace = f"{speed:>11}  " if rates else ""
    return f"{held:>9}  {pace}{kind[:24]:24}  {'  ' * depth}{label}"
