"""`millstream bench`: put a short load on a running server and measure it."""

import asyncio
import uuid
from typing import Annotated

import msgspec
import typer

from millstream.cli import targets
from millstream.cli.load import Load, Result, run_load
from millstream.cli.output import OutputFormat, StandardOutput
from millstream.cli.progress import activity
from millstream.cli.targets import Profile, Token, Url
from millstream.cli.units import number
from millstream.cli.units import size as in_bytes


def bench(
    seconds: Annotated[float, typer.Option(min=0.1, max=60, help="Seconds for each part.")] = 2.0,
    connections: Annotated[int, typer.Option(min=1, max=256, help="Concurrent writers or readers.")] = 8,
    size: Annotated[int, typer.Option(min=21, max=1_000_000, help="Bytes per message.")] = 100,
    prefix: Annotated[
        str, typer.Option(help="The path below which streams are created; they are deleted at the end.")
    ] = "/bench",
    output_format: OutputFormat = None,
    url: Url = None,
    token: Token = None,
    profile: Profile = None,
) -> None:
    """Load a running server for some seconds, and measure it.

    The load is appends, catch-up reads and live readers. One Python process makes it, so it does not show
    the limit of a fast server.
    """
    server = targets.server(url, token, profile)
    base = targets.locate(server.url, f"{prefix.strip('/')}/{uuid.uuid4().hex[:12]}")
    load = Load(base, server.headers(base), seconds=seconds, connections=connections, size=size)
    with activity("preparing ...") as announce:
        results = asyncio.run(run_load(load, announce))
    output = StandardOutput(output_format)
    if not output.is_text:
        for result in results:
            output.record(msgspec.to_builtins(result))
        return
    output.line(
        output.styled(f"{'':8}{'per second':>14}{'bytes':>14}{'median':>12}{'99 %':>12}{'count':>12}", "dim")
    )
    for result in results:
        output.line(_row(result))


def _row(result: Result) -> str:
    median = f"{result.median_ms:.2f} ms" if result.median_ms is not None else ""
    slow = f"{result.p99_ms:.2f} ms" if result.p99_ms is not None else ""
    pace = f"{in_bytes(result.bytes_per_second)}/s"
    counts = number(result.per_second), number(result.count)
    return f"{result.work:8}{counts[0]:>14}{pace:>14}{median:>12}{slow:>12}{counts[1]:>12}"
