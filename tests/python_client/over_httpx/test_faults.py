from python_client.test_faults import *  # noqa: F403
