"""A real server for the agent kit, and fresh URLs on it."""

import uuid
from collections.abc import Iterator

import pytest

from running import Server, millstream


@pytest.fixture(scope="package")
def server() -> Iterator[Server]:
    with millstream() as server:
        yield server


@pytest.fixture
def url(server: Server) -> str:
    return f"{server.url}/agents/{uuid.uuid4()}"
