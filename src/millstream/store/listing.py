"""The listing: pages of names, each with a bound on how many are looked at and for how long."""

import time
from collections.abc import Mapping

from millstream.protocol.attributes import matches
from millstream.protocol.globs import glob_matches
from millstream.protocol.streams import Stream
from millstream.store.base import Page
from millstream.store.engine import Streams

_MAX_STEPS = 10_000  # names looked at for one page, so that a glob that matches little stays quick
_MAX_S = 0.01  # time for one page, whatever is looked at; a caller continues with the next one


def list_page(
    streams: Streams,
    prefix: str,
    glob: str | None,
    after: str,
    limit: int,
    now_ms: int,
    attributes: Mapping[str, str],
) -> Page:
    """List streams in the order of their names, beginning after a name."""
    found: list[Stream] = []
    end_s = time.thread_time() + _MAX_S  # its own time: a busy machine has no shorter pages
    for steps, name in enumerate(streams.walk(prefix, after)):
        if len(found) == limit or steps == _MAX_STEPS or (steps and time.thread_time() > end_s):
            return Page(found, after)
        after = name
        if glob and not glob_matches(glob, name):
            continue
        entry = streams.find(name)
        if entry is None or not entry.is_visible:
            continue
        if entry.stream.soft_deleted or entry.stream.expired(now_ms):
            continue
        stream = entry.as_visible()
        if matches(stream.attributes, attributes):
            found.append(stream)
    return Page(found, None)
