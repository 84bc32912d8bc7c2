"""What pytest passes to the checks in this folder, and only to those."""

from __future__ import annotations

import pytest

from millstream_conformance.server.plugin import server_for
from millstream_conformance.server.servers import Server


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Server:
    """The server under test, with fresh paths and an empty transcript."""
    return server_for(request.node)
