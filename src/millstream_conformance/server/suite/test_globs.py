"""Globs that are expensive to match. Runs late: a server that backtracks may not recover."""

from __future__ import annotations

import time

from millstream_conformance.server.checks import needs, rule, stricter
from millstream_conformance.server.servers import Server
from millstream_conformance.server.subscriptions import Subscription


@rule("S5")
@needs("subscriptions")
@stricter("section 6.2 does not limit the time; one client could stop the server")
def test_a_glob_cannot_be_made_slow(server: Server) -> None:
    """A pattern of many `**` over a long path is matched at once."""
    subscription = Subscription(server)
    subscription.stream("/".join(["a"] * 40 + ["b"]))
    subscription.stream("wake", content_type="application/json")
    pattern = subscription.relative("/".join(["**", "a"] * 12 + ["**", "c"]))
    started = time.monotonic()
    answer = subscription.put(type="pull-wake", pattern=pattern, wake_stream=subscription.relative("wake"))
    subscription.stream("/".join(["a"] * 41)).append(b"x")
    assert answer.status in {201, 400}
    assert time.monotonic() - started < 2
