"""One server for the commands, and a stream of its own for each test."""

import uuid
from collections.abc import Iterator

import pytest

from cli.commands import Cli
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
    assert cli("create", name, "--json").code == 0
    return name


@pytest.fixture
def text(cli: Cli, name: str) -> str:
    """A text stream."""
    assert cli("create", name, "--content-type", "text/plain").code == 0
    return name
