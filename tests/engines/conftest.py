from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engines.driving import ENGINES, Engine

# What may happen between any two requests without a client noticing.
BETWEEN: dict[str, Callable[[Engine], None]] = {
    "nothing": lambda _engine: None,
    "restart": Engine.restart,
    "checkpoint": Engine.checkpoint,
    "checkpoint-restart": lambda engine: (engine.checkpoint(), engine.restart())[-1],
}


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """Each engine in turn."""
    with Engine(request.param, tmp_path) as engine:
        yield engine


@pytest.fixture(params=BETWEEN)
def meanwhile(request: pytest.FixtureRequest, engine: Engine) -> Callable[[], None]:
    return lambda: BETWEEN[request.param](engine)
