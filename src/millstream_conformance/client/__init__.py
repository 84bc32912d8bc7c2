"""The client suite: does a client conform to the Durable Streams protocol?

    run_client_suite(command)   run it with an adapter and get an exit code; the command line calls this
    discover()                  the cases as a list
    run_cases(command, cases)   play them and get every result as data

An adapter is a small program around the client: it reads one JSON command per line and writes one
JSON result per line (adapters.py). The cases are YAML files (cases/, schema.py); each is played
against the suite's own server, which can misbehave (servers.py, scenes.py).
"""

from millstream_conformance.client.cases import Case, discover
from millstream_conformance.client.run import run_cases, run_client_suite

__all__ = ["Case", "discover", "run_cases", "run_client_suite"]
