"""Conformance suites for Durable Streams: point them at any implementation, in any language.

Nothing here imports `millstream`. A suite that shared code with the server it judges would
share its mistakes too, so this package speaks raw HTTP and keeps its own idea of the rules.

    server/    judges a server: `run_server_suite(url)`, or a pytest plugin
    client/    judges a client, through a small adapter: `run_client_suite(command)`

What both share stands beside them: rules, results, console and reports.
"""
