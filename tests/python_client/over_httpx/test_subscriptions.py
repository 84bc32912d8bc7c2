from python_client.test_subscriptions import *  # noqa: F403
