"""`millstream pipeline requeue`: dead letters back to their streams."""

from typing import Annotated

import msgspec
import typer

from millstream.cli import terminals
from millstream.cli.exits import Exit, Failure
from millstream.cli.output import StandardOutput
from millstream.cli.pipelines import options, running, transforms
from millstream.cli.pipelines.groups import Cluster, Server, grouped


@grouped
def requeue(
    letters: Annotated[str, typer.Argument(help="The stream of dead letters.")] = "_dead-letters",
    sql: Annotated[
        str | None, typer.Option(help="The repair: 'select stream, ... as value from input', or @FILE.")
    ] = None,
    function: Annotated[
        str | None,
        typer.Option(help="The repair, from a table to a table: MODULE:NAME.", metavar="MODULE:NAME"),
    ] = None,
    name: Annotated[str, typer.Option(help="The name of the repair; another repeats letters.")] = "requeue",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be written.")] = False,
    on_bad_record: options.OnBadRecord = "dead-letter",
    dead_letters: options.DeadLetters = "_dead-letters-unrepaired",
    every: options.Every = None,
    checkpoint: options.Checkpoint = None,
    input_option: options.InputOptions = None,
    *,
    cluster: Cluster,
    server: Server,
) -> None:
    """Bring dead letters back to their streams, repaired, exactly once.

    It ends after the existing letters, unless --every makes it follow new ones.
    """
    kept = options.needed(checkpoint)
    if sql is not None and function is not None:
        raise Failure(Exit.USAGE, "--sql and --function exclude each other", "Give one of them, or none")
    if dry_run and (every or cluster.remote):
        raise Failure(Exit.USAGE, "--dry-run ends, and runs here", "Leave out --every and --remote")
    running.ready(cluster.remote)
    from millstream.spark.pipelines.inputs import Pace, look
    from millstream.spark.pipelines.quality import requeue as pipeline
    from millstream.spark.pipelines.records import BadRecords

    query = transforms.query(sql) if sql is not None else None
    if function is not None:
        transforms.find(function)
    with running.failures():
        source = server.source(letters, input_option)
        bad = BadRecords(action=on_bad_record, stream=dead_letters)
        look(source)
    output = StandardOutput(cluster.output_format)

    def show(letter: "pipeline.Requeued") -> None:
        if output.is_text:
            becomes = f"stays: {letter.error}" if letter.error else letter.stream
            output.line(terminals.inert_line(f"{becomes}  {letter.value}"))
        else:
            output.record({"event": "letter", **msgspec.to_builtins(letter)})

    running.run(
        "requeue",
        lambda spark, on_progress: pipeline.requeue(
            spark,
            source,
            checkpoint=kept,
            repair=transforms.function(function) if function is not None else query,
            name=name,
            pace=Pace(every=every) if every else Pace(once=True),
            bad=bad,
            on_dry_run=show if dry_run else None,
            on_progress=on_progress,
        ),
        cluster,
        server,
        source=source,
        target=None,
    )
