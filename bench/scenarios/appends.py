"""Appends of 50 to 150 bytes: in memory, and on the disk before they are answered; with producers, too."""

from bench.load import Load
from bench.rounds import Scenario
from bench.scenarios.requests import CONNECTIONS, scenario
from bench.scenarios.streams import PATH, create, create_many
from tests.running import Server

LEAST_BYTES = 50
MOST_BYTES = 150
PRODUCERS = (
    32 * CONNECTIONS
)  # so many that none overtakes itself on another connection, even if one is delayed


def appends(
    connections: int, *, streams: int = 1, producers: int = 0, durable: bool = True, is_same: bool = False
) -> Scenario:
    """Make a scenario of appends; with producers, each append carries the number of its producer's last."""

    def load(server: Server) -> Load:
        url = server.url + PATH
        return Load(url, "POST", connections, LEAST_BYTES, MOST_BYTES, streams, producers, is_same=is_same)

    def make_streams(server: Server) -> None:
        create(server) if streams == 1 else create_many(server, 0, streams)

    name, title = ("synced", "synced append") if durable else ("append", "append in memory")
    name += f"-{connections}" + (f"-{streams}" if streams > 1 else "") + ("-producers" if producers else "")
    name += "-same" if is_same else ""
    title += f", {connections} connection" + ("s" if connections > 1 else "")
    title += f", {streams} streams" if streams > 1 else ""
    title += f", {producers:,} producers" if producers else ""
    title += ", all equal" if is_same else ""
    return scenario(name, title, "appends/s", load, make_streams, durable=durable, waits_for_disk=durable)


SAME = appends(CONNECTIONS, is_same=True)
"""For comparison only: what a server gains from requests that are equal to the byte."""

ALL = (
    appends(CONNECTIONS),
    appends(CONNECTIONS, streams=64),
    appends(CONNECTIONS, producers=PRODUCERS),
    appends(1),
    appends(CONNECTIONS, durable=False),
    appends(1, durable=False),
)
