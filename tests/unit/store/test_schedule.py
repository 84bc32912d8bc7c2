"""The schedule: a stream is looked at when it is due, once, however often it was renewed or replaced."""

from millstream.protocol.expiry import Lifetime
from millstream.protocol.lifecycle import Create, plan_create
from millstream.protocol.requests import CreateRequest
from millstream.protocol.retention import KEEP_ALL, Retention
from millstream.store.entries import StreamEntry
from millstream.store.pieces import TrimmedPieces
from millstream.store.schedule import Schedule

NOW_MS = 1_000_000


def entry_of(
    id: int, name: str = "/s", ttl_s: int | None = 10, retention: Retention = KEEP_ALL
) -> StreamEntry:
    request = CreateRequest(content_type=b"text/plain", lifetime=Lifetime(ttl_s=ttl_s), retention=retention)
    plan = plan_create(id, name, request, NOW_MS, KEEP_ALL)
    assert isinstance(plan, Create)
    return StreamEntry(plan.stream, None, TrimmedPieces(0))


def test_a_stream_is_due_when_its_time_ends_and_only_once() -> None:
    schedule, entry = Schedule(), entry_of(1)
    schedule.watch(entry)
    schedule.watch(entry)
    assert list(schedule.due({"/s": entry}, NOW_MS + 9_999)) == []
    assert list(schedule.due({"/s": entry}, NOW_MS + 10_000)) == [entry]
    assert list(schedule.due({"/s": entry}, NOW_MS + 99_999)) == []


def test_a_renewed_stream_that_is_watched_again_is_due_later() -> None:
    schedule, entry = Schedule(), entry_of(1)
    schedule.watch(entry)
    entry.stream.renew(NOW_MS + 5_000)
    assert list(schedule.due({"/s": entry}, NOW_MS + 10_000)) == [entry]
    schedule.watch(entry)
    assert list(schedule.due({"/s": entry}, NOW_MS + 14_999)) == []
    assert list(schedule.due({"/s": entry}, NOW_MS + 15_000)) == [entry]


def test_another_stream_of_the_same_name_is_not_taken_for_it() -> None:
    schedule, old, new = Schedule(), entry_of(1), entry_of(2)
    schedule.watch(old)
    assert list(schedule.due({"/s": new}, NOW_MS + 10_000)) == []


def test_a_stream_that_holds_too_much_is_due_at_once() -> None:
    schedule, entry = Schedule(), entry_of(1, ttl_s=None, retention=Retention(bytes=100))
    entry.stream.tail = 1_000
    schedule.watch(entry)
    assert list(schedule.overfull({"/s": entry})) == [entry]
    assert list(schedule.overfull({"/s": entry})) == []


def test_what_is_not_trimmed_in_one_turn_is_given_in_the_next() -> None:
    schedule = Schedule()
    entries = {f"/{id}": entry_of(id, f"/{id}", None, Retention(bytes=100)) for id in range(5)}
    for entry in entries.values():
        entry.stream.tail = 1_000
        schedule.watch(entry)
    first = next(schedule.overfull(entries))
    schedule.watch(first)  # it has grown again
    given = [first, *schedule.overfull(entries)]
    assert [entry.stream.id for entry in given] == [0, 1, 2, 3, 4]
    assert list(schedule.overfull(entries)) == [first]


def test_deadlines_of_streams_that_left_memory_are_pruned_once_they_are_most() -> None:
    schedule = Schedule()
    entries = {f"/{id}": entry_of(id, f"/{id}") for id in range(6_000)}
    for entry in entries.values():
        schedule.watch(entry)
    schedule.prune({"/7": entries["/7"]})
    assert [due[2] for due in schedule._deadlines] == ["/7"]
