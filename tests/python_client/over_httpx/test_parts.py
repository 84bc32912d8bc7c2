from python_client.test_parts import *  # noqa: F403
