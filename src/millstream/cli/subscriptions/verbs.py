"""`millstream subscribe`: let streams wake workers and webhooks."""

import sys
from typing import Annotated

import msgspec
import typer

from millstream.cli import targets
from millstream.cli.exits import Exit, Failure
from millstream.cli.output import OutputFormat, StandardOutput
from millstream.cli.subscriptions.options import Id, Paths, relative, subscriptions_of
from millstream.cli.targets import Profile, Token, Url
from millstream.cli.terminals import inert_line
from millstream.cli.units import counted, size
from millstream.client.core.subscriptions.models import SubscriptionInfo


def create(
    id: Annotated[str, typer.Argument(help="A name for it: orders, for example.", metavar="ID")],
    webhook: Annotated[
        str | None, typer.Option(help="Post to this URL when there is something new.", metavar="URL")
    ] = None,
    wake: Annotated[
        str | None,
        typer.Option(
            help="Instead: write to this stream, which is created, and let workers claim.",
            metavar="STREAM",
            autocompletion=targets.completed,
        ),
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option(help="Streams that match: * is a segment, ** any number of them.", metavar="GLOB"),
    ] = None,
    stream: Annotated[
        list[str] | None,
        typer.Option(
            help="A stream by its path; may be repeated.", metavar="PATH", autocompletion=targets.completed
        ),
    ] = None,
    lease: Annotated[
        float | None,
        typer.Option(
            min=1, max=600, help="Seconds without a sign of life until another is asked.", metavar="SECONDS"
        ),
    ] = None,
    description: Annotated[str | None, typer.Option(help="What it is for.", metavar="TEXT")] = None,
    output_format: OutputFormat = None,
    url: Url = None,
    token: Token = None,
    profile: Profile = None,
) -> None:
    """Create a subscription, unless it is there already. It begins with what is new from now on."""
    if (webhook is None) == (wake is None):
        raise Failure(
            Exit.USAGE, "Give --webhook or --wake, one of them", "--wake is for `millstream worker`"
        )
    if pattern is None and not stream:
        raise Failure(Exit.USAGE, "Give --pattern or --stream", "--pattern 'orders/**' is an example")
    found = subscriptions_of(targets.server(url, token, profile))
    glob = relative(pattern) if pattern is not None else None
    streams = [relative(path) for path in stream or []]
    lease_ms = round(lease * 1000) if lease is not None else None
    if webhook is not None:
        made = found.create_webhook(
            id, webhook, pattern=glob, streams=streams, lease_ttl_ms=lease_ms, description=description
        )
    else:
        made = found.create_pull(
            id,
            relative(wake or ""),
            pattern=glob,
            streams=streams,
            lease_ttl_ms=lease_ms,
            description=description,
        )
    _show(StandardOutput(output_format), made)


def list_subscriptions(
    output_format: OutputFormat = None, url: Url = None, token: Token = None, profile: Profile = None
) -> None:
    """List the subscriptions of a server, with their lag and their last error."""
    output = StandardOutput(output_format)
    found = subscriptions_of(targets.server(url, token, profile)).list()
    if not output.is_text:
        output.records(_fields(one) for one in found)
        return
    count = 0
    for one in found:
        if not count:
            output.line(output.styled(f"{'state':8} {'lag':>22}  {'type':9}  subscription", "dim"))
        error = f"  {one.last_error}" if one.status != "active" and one.last_error else ""
        row = f"{one.status:8} {_lag(one) or '-':>22}  {one.type:9}  {one.id}{error}"
        output.line(inert_line(row))
        count += 1
    output.line(output.styled(counted(count, "subscription", "subscriptions"), "dim"))


def show(
    id: Id,
    output_format: OutputFormat = None,
    url: Url = None,
    token: Token = None,
    profile: Profile = None,
) -> None:
    """Show a subscription: its streams, its lag, its last error."""
    _show(StandardOutput(output_format), subscriptions_of(targets.server(url, token, profile)).read(id))


def delete(
    id: Id,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    output_format: OutputFormat = None,
    url: Url = None,
    token: Token = None,
    profile: Profile = None,
) -> None:
    """Delete a subscription, with its cursors; asks for confirmation on a terminal."""
    found = subscriptions_of(targets.server(url, token, profile))
    found.read(id)  # one that is not there is a mistake here
    if not yes and sys.stdin.isatty():
        typer.confirm(f"Delete the subscription {inert_line(id)}?", abort=True, err=True)
    found.delete(id)
    StandardOutput(output_format).result(f"{id} is deleted", {"subscription": id, "deleted": True})


def add(
    id: Id,
    streams: Paths,
    output_format: OutputFormat = None,
    url: Url = None,
    token: Token = None,
    profile: Profile = None,
) -> None:
    """Add streams to a subscription, from now on."""
    paths = [relative(path) for path in streams]
    subscriptions_of(targets.server(url, token, profile)).add_streams(id, *paths)
    sentence = f"{id} has {', '.join(paths)}"
    StandardOutput(output_format).result(sentence, {"subscription": id, "added": paths})


def remove(
    id: Id,
    streams: Paths,
    output_format: OutputFormat = None,
    url: Url = None,
    token: Token = None,
    profile: Profile = None,
) -> None:
    """Remove streams that were added by their paths."""
    paths = [relative(path) for path in streams]
    subscriptions_of(targets.server(url, token, profile)).remove_streams(id, *paths)
    sentence = f"{id} has {', '.join(paths)} no more, unless its pattern matches"
    StandardOutput(output_format).result(sentence, {"subscription": id, "removed": paths})


def retry(
    id: Id,
    output_format: OutputFormat = None,
    url: Url = None,
    token: Token = None,
    profile: Profile = None,
) -> None:
    """Attempt a delivery that has failed now."""
    subscriptions_of(targets.server(url, token, profile)).retry(id)
    StandardOutput(output_format).result(f"{id} is tried now", {"subscription": id, "retried": True})


def _fields(one: SubscriptionInfo) -> dict[str, object]:
    fields: dict[str, object] = msgspec.to_builtins(one)
    return fields


def _show(output: StandardOutput, found: SubscriptionInfo) -> None:
    if not output.is_text:
        output.record(_fields(found))
        return
    retried = f"{found.attempts} failed, the next at {found.next_attempt_at}" if found.attempts else None
    rows = {
        "subscription": found.id,
        "type": found.type,
        "webhook": found.webhook.url if found.webhook is not None else None,
        "wake stream": found.wake_stream,
        "pattern": found.pattern,
        "description": found.description,
        "lease": f"{found.lease_ttl_ms / 1000:g} s",
        "state": found.status,
        "holder": found.holder,
        "lag": _lag(found),
        "behind since": found.pending_since,
        "attempts": retried,
        "last error": found.last_error,
        "last success": found.last_success_at,
    }
    for name, value in rows.items():
        if value is not None:
            output.line(f"{output.styled(f'{name:13}', 'dim')} {inert_line(str(value))}")
    for link in found.streams:
        output.line(inert_line(f"  {link.path} ({link.link_type}) processed up to {link.acked_offset}"))
    left = (found.stream_count or 0) - len(found.streams)
    if found.streams and left > 0:
        output.line(output.styled(f"  and {counted(left, 'stream', 'streams')} more", "dim"))


def _lag(one: SubscriptionInfo) -> str | None:
    if one.pending_streams is None:
        return None
    if not one.pending_streams:
        return "none"
    amount = f", {size(one.pending_bytes)}" if one.pending_bytes is not None else ""
    return counted(one.pending_streams, "stream", "streams") + amount
