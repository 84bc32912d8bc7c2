"""Limits that the crowds of these tests need."""

import resource

import pytest


@pytest.fixture(scope="session", autouse=True)
def many_files() -> None:
    """Raise the limit on open files, which servers inherit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 8192 if hard == resource.RLIM_INFINITY else min(8192, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def needs_files(count: int) -> None:
    """Skip a test on a machine that does not let a process have so many connections."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count + 200:
        pytest.skip(f"needs {count + 200} open files, the limit here is {soft}")
