"""Options that every pipeline has."""

from typing import TYPE_CHECKING, Annotated

import typer

from millstream.cli.exits import Exit, Failure

if TYPE_CHECKING:
    from millstream.spark.pipelines.quality.rules import Rule

Streams = Annotated[
    str,
    typer.Argument(
        help="A glob, 'chat/*', or names separated by commas.", metavar="STREAMS", show_default=False
    ),
]
Checkpoint = Annotated[
    str | None,
    typer.Option(help="The folder for its progress; the same for every run.", metavar="PATH"),
]
UntilClosed = Annotated[bool, typer.Option("--until-closed", help="Stop when all streams have ended.")]
Once = Annotated[bool, typer.Option("--once", help="Stop when everything that exists now is done.")]
Every = Annotated[
    str | None, typer.Option(help="Run forever, at this interval: '10 seconds'.", metavar="TIME")
]
Since = Annotated[
    str | None,
    typer.Option(
        help="Only what arrived at a time or later: 2026-11-18T09:30:00Z, '-2 days'.", metavar="TIME"
    ),
]
Until = Annotated[
    str | None, typer.Option(help="Stop before what arrived at a time or later.", metavar="TIME")
]
Schema = Annotated[
    str | None,
    typer.Option(help="The messages' fields: 'id long, at timestamp, name string'.", metavar="COLUMNS"),
]
OnBadRecord = Annotated[
    str,
    typer.Option("--on-bad-record", help="dead-letter or fail.", metavar="WHAT"),
]
Expect = Annotated[
    list[str] | None,
    typer.Option("--expect", help="'NAME: CONDITION'; others are bad records. Repeatable.", metavar="RULE"),
]
ExpectOrDrop = Annotated[
    list[str] | None,
    typer.Option("--expect-or-drop", help="'NAME: CONDITION'; others are left out.", metavar="RULE"),
]
ExpectOrFail = Annotated[
    list[str] | None,
    typer.Option("--expect-or-fail", help="'NAME: CONDITION'; others stop it.", metavar="RULE"),
]
DeadLetters = Annotated[str, typer.Option(help="The stream for bad records.", metavar="STREAM")]
Master = Annotated[
    str | None, typer.Option(help="A Spark cluster; default: local[*].", metavar="URL", show_default=False)
]
Remote = Annotated[str | None, typer.Option(help="A Spark Connect server: sc://host.", metavar="URL")]
Conf = Annotated[
    list[str] | None, typer.Option(help="A Spark setting, spark.x=y; repeatable.", metavar="KEY=VALUE")
]
InputOptions = Annotated[
    list[str] | None,
    typer.Option("--input-option", help="An option of the input; repeatable.", metavar="KEY=VALUE"),
]
OutputOptions = Annotated[
    list[str] | None,
    typer.Option("--output-option", help="An option of the output; repeatable.", metavar="KEY=VALUE"),
]
Metrics = Annotated[
    str | None,
    typer.Option(help="Show metrics at a port, or write them to a file.", metavar="[HOST]:PORT|FILE"),
]
Report = Annotated[
    str | None,
    typer.Option(help="Report to this stream; the web page shows _pipelines.", metavar="STREAM"),
]


def pairs(given: list[str] | None, option: str) -> dict[str, str]:
    """Parse KEY=VALUE options."""
    found = {}
    for one in given or []:
        key, equals, value = one.partition("=")
        if not key or not equals:
            raise Failure(Exit.USAGE, f"{option} {one!r} is not KEY=VALUE", "Write it as key=value")
        found[key.strip()] = value
    return found


def check(schema: str | None) -> None:
    """Refuse a misspelt schema before Spark is started."""
    from millstream.spark.ddl import check_schema

    if schema is not None:
        check_schema(schema)


def rules(
    expect: list[str] | None, or_drop: list[str] | None, or_fail: list[str] | None
) -> "tuple[Rule, ...]":
    """Parse what is expected of records, before Spark is started."""
    from millstream.spark.pipelines.quality.rules import DROP, FAIL, QUARANTINE, checked, rule

    given = ((QUARANTINE, expect), (DROP, or_drop), (FAIL, or_fail))
    return checked(rule(text, action) for action, texts in given for text in texts or [])


def listed(text: str) -> list[str]:
    """Parse names separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def needed(checkpoint: str | None) -> str:
    """Require a checkpoint."""
    if not checkpoint:
        raise Failure(
            Exit.USAGE,
            "--checkpoint is missing",
            "It names the folder from which the next run resumes",
        )
    return checkpoint


def one_pace(*, until_closed: bool, once: bool, every: str | None) -> None:
    """Refuse contradictory options."""
    if until_closed + once + (every is not None) > 1:
        raise Failure(
            Exit.USAGE,
            "--until-closed, --once and --every exclude each other",
            "Give one of them, or none to run forever",
        )
