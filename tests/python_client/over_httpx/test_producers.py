from python_client.test_producers import *  # noqa: F403
