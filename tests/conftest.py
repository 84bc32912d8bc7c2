"""What holds for all tests."""

import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

LONG = [Path(__file__).with_name(name) for name in ("spark", "examples", "docs")]

# Tests share their machine with others: how long an example takes says nothing about the code.
settings.register_profile("millstream", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("millstream")

# Who runs tests in the background has them ignore Ctrl+C, and with them every process that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes long, so that nobody waits for it in the end."""
    items.sort(key=lambda item: not any(folder in item.path.parents for folder in LONG))
