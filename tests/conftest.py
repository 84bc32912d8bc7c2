"""What holds for all tests."""

from hypothesis import HealthCheck, settings

# Tests share their machine with others: how long an example takes says nothing about the code.
settings.register_profile("millstream", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("millstream")
