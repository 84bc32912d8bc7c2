"""Who sends, and who goes along."""

from hypothesis import given
from hypothesis import strategies as st

from millstream.client.core.batching import AppendQueue, Entry


def entry(name: str, *, alone: bool = False) -> Entry[None]:
    return Entry(name.encode(), None, alone=alone)


def names(leader: Entry[None] | None) -> list[str]:
    return [one.message.decode() for one in leader.batch or []] if leader else []


def test_the_first_goes_alone_and_the_waiting_go_together() -> None:
    queue: AppendQueue[None] = AppendQueue()
    assert queue.enter(entry("a")) is True
    assert [queue.enter(entry(name)) for name in "bcd"] == [False, False, False]
    assert names(queue.leave()) == ["b", "c", "d"]
    assert queue.leave() is None
    assert queue.enter(entry("e")) is True


def test_an_append_with_a_number_of_its_own_goes_alone_in_its_place() -> None:
    queue: AppendQueue[None] = AppendQueue()
    queue.enter(entry("a"))
    for name in "bcDef":
        queue.enter(entry(name, alone=name.isupper()))
    assert [names(queue.leave()) for _ in range(4)] == [["b", "c"], ["D"], ["e", "f"], []]


def test_a_batch_has_a_limit_that_one_message_may_pass() -> None:
    queue: AppendQueue[None] = AppendQueue(max_batch_bytes=8)
    queue.enter(entry("first"))
    for name in ["ab", "cd", "far too long", "ef"]:
        queue.enter(entry(name))
    assert [names(queue.leave()) for _ in range(4)] == [["ab", "cd"], ["far too long"], ["ef"], []]


@given(st.lists(st.tuples(st.text(min_size=1, max_size=5), st.booleans())), st.integers(1, 20))
def test_everything_goes_once_and_in_order(appends: list[tuple[str, bool]], limit: int) -> None:
    queue: AppendQueue[None] = AppendQueue(max_batch_bytes=limit)
    queue.enter(entry("first"))
    for name, alone in appends:
        queue.enter(entry(name, alone=alone))
    sent: list[str] = []
    while leader := queue.leave():
        sent += names(leader)
    assert sent == [name for name, _ in appends]


def test_who_takes_an_append_back_is_not_sent() -> None:
    queue: AppendQueue[None] = AppendQueue()
    queue.enter(entry("a"))
    taken_back = entry("b")
    queue.enter(taken_back)
    queue.enter(entry("c"))
    queue.forget(taken_back)
    assert names(queue.leave()) == ["c"]
