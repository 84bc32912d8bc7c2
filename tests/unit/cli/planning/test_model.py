"""The capacity model: more of anything never needs less, and what breaks first is said first."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.cli.planning.costs import MEASURED
from millstream.cli.planning.model import BUSY, LEAST_SERVERS, Demand, limits, plan

DEMANDS = st.builds(
    Demand,
    streams=st.integers(1, 10**7),
    appends_per_s=st.floats(0.001, 10**5),
    append_bytes=st.integers(1, 10**5),
    readers=st.integers(0, 10**5),
    reads_per_s=st.floats(0, 10**5),
    retain_days=st.floats(0, 1000),
    hottest=st.floats(0, 10**5),
    server_cores=st.integers(1, 64),
    database_cores=st.integers(1, 64),
)


@given(DEMANDS)
def test_servers_have_room(demand: Demand) -> None:
    found = plan(demand)
    assert found.servers >= LEAST_SERVERS
    assert found.servers == 1000 or found.server_cores <= found.servers * demand.server_cores * BUSY
    assert found.transactions_per_s <= min(demand.appends_per_s, MEASURED.syncs_per_s) * (1 + 1e-9)


@given(DEMANDS, st.sampled_from(["append_bytes", "reads_per_s", "retain_days"]), st.floats(1, 10))
def test_more_of_anything_never_needs_less(demand: Demand, what: str, factor: float) -> None:
    value = getattr(demand, what)
    more = msgspec.structs.replace(demand, **{what: type(value)(value * factor)})
    before, after = plan(demand), plan(more)
    assert after.servers >= before.servers
    assert after.database_bytes >= before.database_bytes
    assert after.out_bytes_per_s >= before.out_bytes_per_s


@given(DEMANDS)
def test_what_breaks_first_is_first(demand: Demand) -> None:
    used = [limit.used for limit in limits(demand, plan(demand))]
    assert used == sorted(used, reverse=True)


def test_a_stream_that_gets_more_than_one_stream_can_is_named() -> None:
    demand = Demand(1, 30_000, 100, 0, 0, 1, 30_000, 4, 8)
    first = limits(demand, plan(demand))[0]
    assert first.what.startswith("appends to one stream")
    assert first.used == pytest.approx(1.5)
