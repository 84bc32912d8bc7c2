"""The servers that every public client is tried on."""

from collections.abc import Iterator

import pytest

from running import Server, granian_server, hypercorn_server, millstream, uvicorn_server

SERVERS = {
    "native": millstream,
    "uvicorn": uvicorn_server,
    "granian": granian_server,
    "hypercorn": hypercorn_server,
}


@pytest.fixture(scope="package", params=SERVERS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with SERVERS[request.param]() as server:
        yield server
