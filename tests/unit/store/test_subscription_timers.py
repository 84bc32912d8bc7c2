"""Timers of subscriptions: what is due, whatever was set, replaced and taken before."""

from hypothesis import given
from hypothesis import strategies as st

from millstream.store.subscriptions.timers import Timers

KEYS = st.sampled_from("abcde")
TIMES = st.integers(0, 9)
STEPS = st.lists(st.tuples(KEYS, st.none() | TIMES) | TIMES)


@given(STEPS, TIMES)
def test_what_is_due_is_what_a_dictionary_says(
    steps: list[tuple[str, int | None] | int], now_ms: int
) -> None:
    timers, model = Timers(), dict[str, int]()
    for step in steps:
        if isinstance(step, int):
            taken = timers.pop_due(step)
            assert (taken is None) == all(due_ms > step for due_ms in model.values())
            assert taken is None or model.pop(taken) <= step
            continue
        key, due_ms = step
        timers.set(key, due_ms)
        model.pop(key, None)
        if due_ms is not None:
            model[key] = due_ms
    assert sorted(timers.due(now_ms)) == sorted(key for key, due_ms in model.items() if due_ms <= now_ms)
