"""What holds for all tests: settings, and how they are spread over workers (see `scheduling`)."""

import signal
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, settings

import forking
import loading
import quick_spark
import running
import scheduling
import second_try

# Tests share their machine with others: how long an example takes says nothing about the code.
settings.register_profile("millstream", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("millstream")

# A shell that runs tests in the background makes them ignore SIGINT, and every process that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same goes for answers: five seconds are httpx's patience, which a busy machine exceeds.
for _phase in ("connect", "read", "write", "pool"):
    setattr(httpx._config.DEFAULT_TIMEOUT_CONFIG, _phase, 60.0)

quick_spark.use()
running.start_process = forking.start


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    loading.load(session.config)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: scheduling.rank(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    return scheduling.workers()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> scheduling.Scheduling:
    return scheduling.Scheduling(config, log)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    second_try.note_end(session)
