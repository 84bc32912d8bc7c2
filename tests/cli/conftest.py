"""One server for the commands, and a stream of its own for each test."""

import uuid
from collections.abc import Iterator

import pytest

from cli.commands import Cli
from millstream import DurableStream
from running import Server, millstream


@pytest.fixture(scope="package")
def server() -> Iterator[Server]:
    with millstream() as server:
        yield server


@pytest.fixture
def cli(server: Server) -> Cli:
    return Cli(server.url)


@pytest.fixture
def name() -> str:
    return f"/cli/{uuid.uuid4()}"


@pytest.fixture
def events(cli: Cli, name: str) -> str:
    """A JSON stream."""
    DurableStream.create(cli.url + name, content_type="application/json")
    return name


@pytest.fixture
def text(cli: Cli, name: str) -> str:
    """A text stream."""
    DurableStream.create(cli.url + name, content_type="text/plain")
    return name
