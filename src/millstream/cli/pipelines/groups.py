"""Options that belong together: a command takes a group of them as one parameter.

        @grouped
        def archive(streams: Streams, *, pacing: Pacing, cluster: Cluster, server: Server) -> None:

Typer sees the fields of a group as options of their own.
"""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from millstream.cli import targets
from millstream.cli.exits import Exit, Failure
from millstream.cli.output import OutputFormat
from millstream.cli.pipelines import options
from millstream.cli.targets import Profile, Token, Url

if TYPE_CHECKING:
    from millstream.spark.pipelines.inputs import Input, Pace
    from millstream.spark.pipelines.outputs import Output


@dataclass(frozen=True)
class Pacing:
    """How long a pipeline runs; without any of it forever. What it reads may be a range of time."""

    until_closed: options.UntilClosed = False
    once: options.Once = False
    every: options.Every = None
    since: options.Since = None
    until: options.Until = None

    def __post_init__(self) -> None:
        """Refuse contradictory options."""
        options.one_pace(until_closed=self.until_closed, once=self.once, every=self.every)
        if self.until is not None and (self.until_closed or self.every is not None):
            raise Failure(
                Exit.USAGE,
                "--until ends a pipeline, and excludes --until-closed and --every",
                "Leave them out, or give --since alone",
            )

    @property
    def ends(self) -> bool:
        """Whether it ends by itself."""
        return self.until_closed or self.once or self.until is not None

    def range(self) -> dict[str, str]:
        """Give the options of the input for what arrived in a range of time."""
        given = {"startingTimestamp": self.since, "endingTimestamp": self.until}
        return {name: value for name, value in given.items() if value is not None}

    def pace(self, otherwise: str | None = None) -> "Pace":
        """Give the pipeline's pace; `otherwise` is the interval if nothing was asked for."""
        from millstream.spark.pipelines.inputs import Pace

        every = self.every if self.ends else self.every or otherwise
        once = self.once or self.until is not None
        return Pace(until_closed=self.until_closed, once=once, every=every)


@dataclass(frozen=True)
class Cluster:
    """Where a pipeline runs, and how it reports."""

    master: options.Master = None
    remote: options.Remote = None
    conf: options.Conf = None
    metrics: options.Metrics = None
    report: options.Report = None
    output_format: OutputFormat = None


@dataclass(frozen=True)
class Server:
    """The server whose streams a pipeline reads and writes."""

    url: Url = None
    token: Token = None
    profile: Profile = None

    def source(self, streams: str, given: list[str] | None, pacing: Pacing | None = None) -> "Input":
        """Give what a pipeline reads, with the options of the input."""
        from millstream.spark.pipelines.inputs import Input

        there = targets.server(self.url, self.token, self.profile)
        pairs = options.pairs(given, "--input-option")
        if pacing is not None:
            pairs |= pacing.range()
        return Input(url=there.url, streams=streams, token=there.token, options=pairs)

    def output(self, stream: str | None, given: list[str] | None, closes: str | None = None) -> "Output":
        """Give what a pipeline writes, with the options of the output."""
        from millstream.spark.pipelines.outputs import Output

        there = targets.server(self.url, self.token, self.profile)
        pairs = options.pairs(given, "--output-option")
        return Output(url=there.url, stream=stream, token=there.token, closes=closes, options=pairs)


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take groups of options, each of them a dataclass."""
    groups: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        group: Any = parameter.annotation
        if isinstance(group, type) and is_dataclass(group):
            groups[parameter.name] = group
            options_of_it = inspect.signature(group).parameters.values()
            parameters += [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in options_of_it]
        else:
            parameters.append(parameter)

    @functools.wraps(command)
    def run(**given: Any) -> None:
        made = {
            name: group(**{field.name: given.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**given, **made)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run
