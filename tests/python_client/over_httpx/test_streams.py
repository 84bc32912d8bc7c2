from python_client.test_streams import *  # noqa: F403
