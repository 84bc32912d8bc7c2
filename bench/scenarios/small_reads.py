"""Reads of a stream of some size, what HEAD says of it, and reads beside appends; nginx serves a file."""

from bench.load import Load
from bench.rounds import Scenario
from bench.scenarios.appends import LEAST_BYTES, MOST_BYTES
from bench.scenarios.requests import CONNECTIONS, scenario
from bench.scenarios.streams import PATH, connection, create, create_many, request
from tests.running import Server

KIB = 1024
READ_PERCENT = 80
STREAMS = 64


def reads(size: int, title: str) -> Scenario:
    """Make a scenario of reads of a whole stream."""

    def load(server: Server) -> Load:
        return Load(server.url + PATH + "?offset=-1", "GET", CONNECTIONS)

    def make_stream(server: Server) -> None:
        create(server, b"x" * size)

    name, title = f"get-{size}", f"read {title}, {CONNECTIONS} connections"
    return scenario(name, title, "reads/s", load, make_stream, static_bytes=size)


def head(server: Server) -> Load:
    """Ask for the tail of a stream."""
    return Load(server.url + PATH, "HEAD", CONNECTIONS)


def mixed(server: Server) -> Load:
    """Read streams of 1 KB in turn, and append to others."""
    url = server.url + PATH
    return Load(url, "GET", CONNECTIONS, LEAST_BYTES, MOST_BYTES, STREAMS, read_percent=READ_PERCENT)


def create_mixed(server: Server) -> None:
    create_many(server, 0, STREAMS)
    with connection(server) as opened:
        for number in range(STREAMS):
            request(opened, "PUT", f"{PATH}/read/{number}", b"x" * KIB)


ALL = (
    reads(100, "100 B"),
    reads(KIB, "1 KB"),
    reads(16 * KIB, "16 KB"),
    scenario(
        "head", f"HEAD, {CONNECTIONS} connections", "requests/s", head, lambda server: create(server, b"x")
    ),
    scenario(
        "mixed",
        f"{READ_PERCENT} % reads of 1 KB, {100 - READ_PERCENT} % synced appends",
        "requests/s",
        mixed,
        create_mixed,
        waits_for_disk=True,
    ),
)
