from pathlib import Path

import pytest

from certificates import issue


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1, and its key."""
    return issue(tmp_path_factory.mktemp("tls"))
