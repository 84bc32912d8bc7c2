"""Which servers are in development, by their settings."""

from typing import Any

import pytest

from millstream.server.settings import Settings, SettingsError
from millstream.server.webhooks.policies import webhook_policy


@pytest.mark.parametrize(
    ("values", "is_open", "expected"),
    [
        ({}, True, True),
        ({"host": "::1"}, True, True),
        ({}, False, False),
        ({"host": "0.0.0.0"}, True, False),
        ({"insecure": True}, True, False),
        ({"trust_forwarded": True}, True, False),
        ({"allowed_hosts": ("streams.example",)}, True, False),
        ({"webhook_localhost": "refuse"}, True, False),
        ({"webhook_localhost": "allow", "host": "0.0.0.0"}, False, True),
    ],
)
def test_localhost_is_for_servers_that_only_this_machine_can_use(
    values: dict[str, Any], is_open: bool, expected: bool
) -> None:
    assert webhook_policy(Settings(**values), is_open=is_open).in_development is expected


def test_a_wrong_entry_is_refused_with_the_settings_name() -> None:
    with pytest.raises(SettingsError, match=r"webhook_allow: '10\.0\.0\.1/8' is not"):
        Settings(webhook_allow=("10.0.0.1/8",))
