"""Conformance suites for Durable Streams: point them at any implementation, in any language.

Nothing here imports `millstream`. A suite that shared code with the server that it tests would
share its bugs, so this package speaks raw HTTP and implements the rules a second time.

    server/       tests a server: `run_server_suite(url)`, or a pytest plugin
    client/       tests a client through a small adapter: `run_client_suite(command)`
    rules_page    prints both tables of rules as a documentation page

Both suites share rules, results, console output and reports.
"""
