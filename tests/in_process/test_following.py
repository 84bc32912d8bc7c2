"""The tests of the client over HTTP, on the streams of an application."""

from python_client.test_following import *  # noqa: F403
