from python_client.test_changing import *  # noqa: F403
