"""Our client behind the command protocol of the client conformance suites."""
