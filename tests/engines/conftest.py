from collections.abc import Iterator
from pathlib import Path

import pytest

from engines.driving import ENGINES, Engine


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """Each engine in turn."""
    with Engine(request.param, tmp_path) as engine:
        yield engine
