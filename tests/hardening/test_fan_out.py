"""Readers are woken in slices, and appends are let in between: everyone gets everything, in order."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager

import httpx
import pytest

from hardening.conftest import needs_files
from hardening.fan_out import deliver
from running import Server, durable_millstream, millstream

READERS = 150  # ten slices; `make torture` has 10,000


@pytest.mark.parametrize("start", [millstream, durable_millstream], ids=["memory", "log"])
def test_every_reader_gets_every_message_in_order(
    start: Callable[[], AbstractContextManager[Server]],
) -> None:
    """L4, L5: while four writers append all the time."""
    needs_files(READERS)
    with start() as server:
        httpx.put(server.url + "/s", headers={"Content-Type": "text/plain"})
        asyncio.run(deliver(server.url, "/s", readers=READERS, writers=4, messages=40))
