from python_client.test_tls import *  # noqa: F403
