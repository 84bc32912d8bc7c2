from python_client.test_updates import *  # noqa: F403
