from python_client.test_redirects import *  # noqa: F403
