"""The tests of the client over HTTP, on the streams of an application."""

from python_client.test_times import *  # noqa: F403
