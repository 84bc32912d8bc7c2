"""Admission: a burst is taken, an overload is not."""

from millstream.server.access.admission import Admission, DiskQueue, LoopLag
from millstream.server.settings import Settings
from millstream.store.memory import memory_store


def refused(lag: LoopLag, began_s: float, work_s: float, step_s: float = 0.005) -> int:
    """Work through a turn of requests, one each `step_s`; count those that are late."""
    count = round(work_s / step_s)
    return sum(lag.is_late(began_s, began_s + number * step_s) for number in range(count + 1))


def test_a_burst_of_any_length_is_taken_whole() -> None:
    lag = LoopLag(0.025)
    assert refused(lag, 100.0, 0.01) == 0
    assert refused(lag, 100.1, 1.9) == 0
    assert refused(lag, 102.5, 1.9) == 0  # another one, after a rest


def test_long_turns_one_after_another_are_an_overload() -> None:
    lag = LoopLag(0.025)
    began_s, late = 100.0, []
    for _ in range(20):
        late.append(refused(lag, began_s, 0.2))
        began_s += 0.2
    assert late[:10] == [0] * 10
    assert all(count > 0 for count in late[11:])
    assert lag.is_late(began_s, began_s + 0.024) is False  # whoever is early in its turn is taken


def test_short_turns_end_the_overload() -> None:
    lag = LoopLag(0.025)
    for number in range(20):
        refused(lag, 100.0 + 0.2 * number, 0.2)
    for number in range(30):
        assert refused(lag, 104.0 + 0.01 * number, 0.01) == 0
    assert refused(lag, 104.3, 0.2) == 0


MIB = 2**20


def test_what_waits_behind_a_slow_disk_is_limited_by_its_rate() -> None:
    """10 MiB a second: a tenth of a second's worth may wait, but what fits into a commit may always."""
    disk = DiskQueue(0.1, 64 * MIB)
    assert not disk.is_late(30 * MIB, 0, 100.0)  # nothing is known of the disk yet
    assert disk.is_late(30 * MIB, MIB, 100.1)
    assert disk.is_late(9 * MIB, 2 * MIB, 100.2)
    assert not disk.is_late(8 * MIB, 3 * MIB, 100.3)


def test_a_fast_disk_takes_more() -> None:
    disk = DiskQueue(0.1, 64 * MIB)
    disk.is_late(30 * MIB, 0, 100.0)
    assert not disk.is_late(30 * MIB, 50 * MIB, 100.1)
    assert disk.is_late(65 * MIB, 100 * MIB, 100.2)


def test_a_disk_that_stands_still_takes_the_floor_until_it_moves_again() -> None:
    disk = DiskQueue(0.1, 64 * MIB)
    for step in range(20):
        disk.is_late(30 * MIB, 0, 100.0 + step / 10)
    assert disk.is_late(9 * MIB, 0, 102.0)
    for step in range(10):
        disk.is_late(9 * MIB, 50 * MIB * step, 102.0 + step / 10)
    assert not disk.is_late(20 * MIB, 500 * MIB, 103.0)


def test_a_rest_is_not_taken_for_a_slow_disk() -> None:
    disk = DiskQueue(0.1, 64 * MIB)
    disk.is_late(30 * MIB, 0, 100.0)
    disk.is_late(30 * MIB, 50 * MIB, 100.1)
    assert not disk.is_late(30 * MIB, 50 * MIB, 200.0)  # nothing was synced, because nothing came


def test_a_change_is_refused_while_too_much_waits() -> None:
    store = memory_store()
    admission = Admission(store, Settings(max_unsynced_bytes=1000, max_unsynced_changes=10))
    assert admission.refusal() is None
    waiting = store.engine.journal
    waiting.unsynced_bytes = 1001
    reply = admission.refusal()
    assert reply is not None
    assert (reply.status, dict(reply.headers)[b"retry-after"]) == (503, b"1")
    waiting.unsynced_bytes, waiting.unsynced_changes = 0, 11
    assert admission.refusal() is not None
    waiting.unsynced_changes = 10
    assert admission.refusal() is None
