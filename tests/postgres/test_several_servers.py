"""Three equal servers over one database: what one has acknowledged or shown, all show."""

import os

import pytest

from postgres.cluster import shared
from postgres.histories import check_histories

HISTORIES = int(os.environ.get("MILLSTREAM_HISTORIES", "2"))


@pytest.mark.timeout(120 + 20 * HISTORIES)
def test_one_log_explains_what_clients_of_three_servers_were_told() -> None:
    cluster = shared()
    print(check_histories(cluster.url(cluster.new_schema()), range(HISTORIES), clients=6, steps=40))


@pytest.mark.timeout(120 + 20 * HISTORIES)
def test_compare_and_append_through_three_servers_is_a_register() -> None:
    """X6."""
    cluster = shared()
    url = cluster.url(cluster.new_schema())
    print(check_histories(url, range(HISTORIES), clients=6, steps=40, compares=True))
