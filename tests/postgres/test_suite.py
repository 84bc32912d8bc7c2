"""A server over PostgreSQL under the suites that nobody excuses it from."""

import io

from millstream_conformance.server import run_server_suite
from postgres.cluster import shared
from running import HASTY_MS, millstream


def test_our_suite_finds_nothing() -> None:
    cluster = shared()
    output = io.StringIO()
    with millstream("--store", cluster.url(cluster.new_schema()), long_poll_ms=HASTY_MS) as server:
        code = run_server_suite(server.url, strict=True, tries=3, output=output)
    assert code == 0, output.getvalue()
