"""`millstream head`: show a stream's metadata."""

from millstream.cli import targets
from millstream.cli.output import OutputFormat, StandardOutput
from millstream.cli.targets import Profile, Stream, Token, Url
from millstream.cli.terminals import inert_line
from millstream.client.core.models import HeadResult
from millstream.client.sync.streams import DurableStream


def head(
    stream: Stream,
    output_format: OutputFormat = None,
    url: Url = None,
    token: Token = None,
    profile: Profile = None,
) -> None:
    """Show a stream's metadata without reading it."""
    show(StandardOutput(output_format), targets.server(url, token, profile).stream(stream))


def show(output: StandardOutput, target: DurableStream) -> None:
    """Show a stream as it is now."""
    found = target.head()
    fields = {
        "stream": targets.shown(target.url),
        "contentType": found.content_type,
        "offset": found.offset,
        "closed": found.stream_closed,
        "ttlSeconds": found.ttl_seconds,
        "expiresAt": found.expires_at,
        "retainBytes": found.retain_bytes,
        "retainSeconds": found.retain_seconds,
        "earliestOffset": found.earliest_offset,
        "firstTime": found.first_time,
        "lastTime": found.last_time,
        "attributes": found.attributes,
        "incarnation": found.incarnation,
    }
    if not output.is_text:
        output.record(fields)
        return
    rows = {
        "stream": fields["stream"],
        "content type": found.content_type,
        "ends at": found.offset,
        "state": "closed" if found.stream_closed else "open",
        "ttl": f"{found.ttl_seconds} s" if found.ttl_seconds is not None else None,
        "expires": found.expires_at,
        "keeps": _kept(found),
        "begins at": found.earliest_offset,
        "first message": found.first_time,
        "last message": found.last_time,
        "attributes": ", ".join(f"{name}={value}" for name, value in found.attributes.items()) or None,
        "incarnation": found.incarnation,
    }
    for name, value in rows.items():
        if value is not None:
            output.line(f"{output.styled(f'{name:13}', 'dim')} {inert_line(str(value))}")


def _kept(found: HeadResult) -> str | None:
    limits = []
    if found.retain_bytes is not None:
        limits.append(f"the newest {found.retain_bytes} bytes")
    if found.retain_seconds is not None:
        limits.append(f"the last {found.retain_seconds} s")
    return ", ".join(limits) or None
