"""Subscriptions that two servers share: either answers for them, one delivers, and is replaced when it dies.

Rules S1, S4: at least once, cursors never go back, nobody who is fenced.
"""

import time

import pytest

from crash.deliveries import PATIENCE_S, Ordeal
from crash.processes import kill, port_of
from postgres.cluster import shared
from postgres.servers import several, start
from running import announced

OPTIONS = ("--webhook-timeout-s", "2")
MORE = 4
"""How many webhooks and claims there are before a kill, and again afterwards."""


def until_more(ordeal: Ordeal) -> None:
    """Wait until webhooks were sent, and work was claimed."""
    wanted = {name: ordeal.counts[name] + MORE for name in ("webhooks", "claims")}
    give_up_s = time.monotonic() + PATIENCE_S
    while any(ordeal.counts[name] < least for name, least in wanted.items()):
        assert not ordeal.wrong, ordeal.wrong
        assert time.monotonic() < give_up_s, f"nobody delivers: {ordeal.counts}"
        time.sleep(0.02)


@pytest.mark.timeout(300)
def test_whichever_server_is_killed_the_other_delivers() -> None:
    """One of the two has the lease, so one of the two kills ends who delivers."""
    cluster = shared()
    url = cluster.url(cluster.new_schema())
    with several(url, 2, OPTIONS) as servers:
        ordeal = Ordeal([port_of(server) for server in servers], seed=1)
        ordeal.set_up()
        ordeal.start()
        try:
            for number in (0, 1):
                until_more(ordeal)
                kill(servers[number])
                ordeal.counts["kills"] += 1
                until_more(ordeal)
                servers[number] = start(url, ordeal.ports[number], OPTIONS)
                announced(servers[number])
            until_more(ordeal)
            ordeal.finish()
        finally:
            ordeal.is_stopping = True
            for server in servers:
                server.stop()
        assert not ordeal.wrong, ordeal.wrong
        assert all("Traceback" not in server.output() for server in servers), servers[0].output()
    print(", ".join(f"{count} {name}" for name, count in ordeal.counts.items()))
