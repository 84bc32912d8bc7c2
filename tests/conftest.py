"""What holds for all tests."""

import signal

from hypothesis import HealthCheck, settings

import quick_spark

# Tests share their machine with others: how long an example takes says nothing about the code.
settings.register_profile("millstream", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("millstream")

# Who runs tests in the background has them ignore Ctrl+C, and with them every process that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

quick_spark.use()
