"""The server suite: does a server conform to the Durable Streams protocol?

    run_server_suite(url)     run it and get an exit code; the command line calls this
    discover()                the checks as a list, for a test suite of your own
    run_checks(url, checks)   run them and get every result as data

The same checks are ordinary pytest tests: `pytest --pyargs millstream_conformance.server.suite
--server-url URL` (see plugin.py).
"""

from millstream_conformance.server.checks import Check, discover
from millstream_conformance.server.results import Result, Run
from millstream_conformance.server.run import run_checks, run_server_suite

__all__ = ["Check", "Result", "Run", "discover", "run_checks", "run_server_suite"]
