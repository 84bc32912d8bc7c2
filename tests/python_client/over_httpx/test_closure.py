from python_client.test_closure import *  # noqa: F403
