"""The few requests that prepare a scenario, over one plain connection."""

import http.client
from collections.abc import Iterator
from contextlib import closing, contextmanager
from urllib.parse import urlsplit

from tests.running import Server

PATH = "/bench"  # the stream, or nginx's file, that a scenario is about
TEXT = "text/plain"


@contextmanager
def connection(server: Server) -> Iterator[http.client.HTTPConnection]:
    with closing(http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=60)) as opened:
        yield opened


def request(
    opened: http.client.HTTPConnection,
    method: str,
    path: str = PATH,
    body: bytes = b"",
    content_type: str = TEXT,
) -> None:
    """Send a request that must succeed."""
    opened.request(method, path, body, {"Content-Type": content_type})
    answer = opened.getresponse()
    text = answer.read()
    if answer.status >= 300:
        raise RuntimeError(f"{method} {path}: {answer.status} {text[:200]!r}")


def create(server: Server, content: bytes = b"") -> None:
    """Make the scenario's text stream."""
    with connection(server) as opened:
        request(opened, "PUT", body=content)


def create_many(server: Server, first: int, count: int) -> None:
    """Make the streams that a load over several streams goes to."""
    with connection(server) as opened:
        for number in range(first, first + count):
            request(opened, "PUT", f"{PATH}/{number}")
