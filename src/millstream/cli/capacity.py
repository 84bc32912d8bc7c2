"""`millstream capacity`: how many servers over PostgreSQL, and which database, some use of streams needs."""

from typing import Annotated

import typer

from millstream.cli.output import OutputFormat, StandardOutput
from millstream.cli.planning.model import Demand, Limit, Plan, limits, plan, scaled
from millstream.cli.units import number, size

_SHOWN = 4
_GROWTH = (1, 10, 100)


def capacity(
    streams: Annotated[int, typer.Option(min=1, help="Streams at a time.")] = 10_000,
    appends_per_s: Annotated[float, typer.Option(min=0.001, help="Appends a second, to all streams.")] = 1000,
    append_bytes: Annotated[int, typer.Option(min=1, help="Bytes of an append.")] = 200,
    readers: Annotated[
        int, typer.Option(min=0, help="Live readers at a time, spread over streams.")
    ] = 10_000,
    reads_per_s: Annotated[float, typer.Option(min=0, help="Reads a second that are not live.")] = 100,
    retain_days: Annotated[float, typer.Option(min=0, help="Days that appends are kept.")] = 30,
    hottest: Annotated[
        float | None,
        typer.Option(min=0, help="Appends a second to the busiest stream.  [default: the same as to others]"),
    ] = None,
    server_cores: Annotated[int, typer.Option(min=1, help="Processors of a server.")] = 4,
    database_cores: Annotated[int, typer.Option(min=1, help="Processors of the database.")] = 8,
    output_format: OutputFormat = None,
) -> None:
    """Estimate which servers and database a load needs."""
    demand = Demand(
        streams=streams,
        appends_per_s=appends_per_s,
        append_bytes=append_bytes,
        readers=readers,
        reads_per_s=reads_per_s,
        retain_days=retain_days,
        hottest=hottest if hottest is not None else appends_per_s / streams,
        server_cores=server_cores,
        database_cores=database_cores,
    )
    output = StandardOutput(output_format)
    for factor in _GROWTH:
        grown = scaled(demand, factor)
        found = plan(grown)
        ends = limits(grown, found)
        if output.is_text:
            _write(output, factor, grown, found, ends)
        else:
            output.record({"times": factor, "demand": grown, "plan": found, "limits": ends})


def _write(output: StandardOutput, factor: int, demand: Demand, found: Plan, ends: list[Limit]) -> None:
    title = "As asked" if factor == 1 else f"{factor} times as much"
    output.line(
        f"{title}: {number(demand.appends_per_s)} appends/s, "
        f"{number(demand.deliveries_per_s)} deliveries/s, {number(demand.reads_per_s)} reads/s"
    )
    output.line(
        f"  servers    {found.servers} of {demand.server_cores} processors (--workers {found.processes}), "
        f"{found.server_cores:.1f} busy in all; {size(found.server_memory_bytes)} of memory each"
    )
    output.line(
        f"  database   {found.database_cores:.1f} processors busy, {number(found.transactions_per_s)} "
        f"transactions/s, {size(found.log_bytes_per_s)}/s of log, {size(found.database_bytes)}, "
        f"{found.connections} connections"
    )
    output.line(f"  bytes out  {size(found.out_bytes_per_s)}/s, {size(found.out_bytes_per_s * 86_400)} a day")
    for limit in ends[:_SHOWN]:
        is_over = "  TOO MUCH" if limit.used > 1 else ""
        output.line(f"  {limit.used:7.0%}  {limit.what}{is_over}")
        if limit is ends[0] or is_over:
            output.line(f"           then: {limit.then}")
