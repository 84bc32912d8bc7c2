"""One Chromium for each module, one page for each test; a page that complains fails its test.

Not one Chromium for all: Playwright keeps an event loop running while it is open, in which the tests of
other folders could not start theirs.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browser.watching import Watched, chromium, http
from node import NodeUnavailableError, install
from running import Server, millstream


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def server(browser: Any) -> Iterator[Server]:
    with millstream() as server:
        yield server


@pytest.fixture
def watched(browser: Any) -> Iterator[Watched]:
    watched = Watched(browser)
    yield watched
    watched.context.close()
    assert watched.complaints == []


@pytest.fixture(scope="session")
def axe() -> str:
    try:
        return (install(Path(__file__).parent) / "axe-core" / "axe.min.js").read_text()
    except NodeUnavailableError as reason:
        pytest.skip(f"axe-core needs npm: {reason}")


@pytest.fixture(scope="session", autouse=True)
def _closed() -> Iterator[None]:
    yield
    http.close()
