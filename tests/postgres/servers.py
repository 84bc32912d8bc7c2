"""Several servers over one database: equal, and ended at any time."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from running import Server, announced, free_port


def start(url: str, port: int = 0, options: Sequence[str] = ()) -> Server:
    """Start a server on a database."""
    command = [sys.executable, "-m", "millstream", "serve", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--store", url, "--drain-timeout-s", "2", "--long-poll-timeout-ms", "20000", *options]
    return Server(command, {})


@contextmanager
def serving(url: str, port: int = 0, options: Sequence[str] = ()) -> Iterator[Server]:
    """A server that is ready; what is left of it at the end is ended."""
    server = start(url, port, options)
    try:
        announced(server)
        yield server
    finally:
        server.stop()


@contextmanager
def several(url: str, count: int, options: Sequence[str] = ()) -> Iterator[list[Server]]:
    """Servers that are ready."""
    with ExitStack() as ending:
        begun = [start(url, free_port(), options) for _ in range(count)]
        for server in begun:
            ending.callback(server.stop)
        for server in begun:
            announced(server)
        yield begun
