"""When a request is sent again, and when not. Time and chance are arguments."""

import pytest

from millstream.client.core.endpoints import Ask, Endpoint
from millstream.client.core.errors import TransportError
from millstream.client.core.exchanges import Send, Sleep, Terms, exchange
from millstream.client.core.retry import Attempts, Chance, Retry, may_repeat, retry_after_s
from unit.client.scripted import answer

RETRIED = [429, 500, 502, 503, 504]
FINAL = [200, 204, 400, 401, 403, 404, 409, 410, 413]


class Clock:
    """A clock that moves when somebody sleeps."""

    def __init__(self, random: float = 1.0) -> None:
        self.now = 0.0
        self.chance = Chance(lambda: self.now, lambda: 1_000_000.0 + self.now, lambda: random)


def outcomes(steps: list, retry: Retry | None, clock: Clock, *, safe: bool) -> tuple[object, list[float]]:
    """Run an exchange against steps; give its outcome and how long it slept each time."""
    plan = exchange(Endpoint("http://h/s"), Ask(b"GET"), Terms(retry, chance=clock.chance), safe=safe)
    slept: list[float] = []
    steps = list(steps)
    try:
        effect = next(plan)
        while True:
            if isinstance(effect, Sleep):
                slept.append(effect.seconds)
                clock.now += effect.seconds
                effect = plan.send(None)
            else:
                assert isinstance(effect, Send)
                step = steps.pop(0) if len(steps) > 1 else steps[0]
                effect = plan.throw(step) if isinstance(step, Exception) else plan.send(step)
    except StopIteration as stop:
        return stop.value, slept
    except TransportError as error:
        return error, slept


@pytest.mark.parametrize("status", RETRIED)
def test_a_passing_failure_is_repeated_when_that_is_safe(status: int) -> None:
    result, slept = outcomes([answer(status), answer(200)], Retry(), Clock(), safe=True)
    assert (result.status, len(slept)) == (200, 1)


@pytest.mark.parametrize("status", FINAL)
def test_a_final_answer_is_not_repeated(status: int) -> None:
    result, slept = outcomes([answer(status)], Retry(), Clock(), safe=True)
    assert (result.status, slept) == (status, [])


@pytest.mark.parametrize(
    ("outcome", "repeats"),
    [
        (answer(429), True),
        (answer(500), False),
        (answer(502), False),
        (answer(503), False),
        (answer(504), False),
        (TransportError("refused", unsent=True), True),
        (TransportError("broke"), False),
        (TransportError("late", code="TIMEOUT"), False),
    ],
)
def test_a_plain_append_is_repeated_only_when_it_did_not_happen(outcome: object, repeats: bool) -> None:
    assert may_repeat(outcome, safe=False) is repeats
    assert may_repeat(outcome, safe=True) is True


def test_doubtful_appends_are_repeated_on_demand() -> None:
    result, slept = outcomes(
        [TransportError("broke"), answer(500), answer(204)], Retry(doubtful_appends=True), Clock(), safe=False
    )
    assert (result.status, len(slept)) == (204, 2)


def test_waits_double_up_to_a_limit() -> None:
    retry = Retry(initial_delay_s=1, max_delay_s=5, max_total_s=1000, max_attempts=6)
    _, slept = outcomes([answer(503)], retry, Clock(random=1.0), safe=True)
    assert slept == [1, 2, 4, 5, 5]


def test_jitter_is_full() -> None:
    retry = Retry(initial_delay_s=1, max_delay_s=100, max_attempts=4)
    _, slept = outcomes([answer(503)], retry, Clock(random=0.25), safe=True)
    assert slept == [0.25, 0.5, 1.0]


def test_all_waiting_together_is_bounded() -> None:
    clock = Clock()
    result, slept = outcomes([answer(500)], Retry(initial_delay_s=1, max_total_s=10), clock, safe=True)
    assert result.status == 500
    assert 5 < sum(slept) <= 10


def test_a_wait_that_is_asked_for_is_kept_or_not_begun() -> None:
    later = answer(429, retry_after="7")
    _, slept = outcomes([later, answer(200)], Retry(initial_delay_s=1), Clock(random=0.5), safe=True)
    assert slept == [7.5]
    result, slept = outcomes([later], Retry(max_total_s=5), Clock(), safe=True)
    assert (result.status, slept) == (429, [])


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("120", 120.0),
        ("Mon, 12 Jan 1970 13:47:10 GMT", 30.0),
        ("Mon, 12 Jan 1970 13:46:00 GMT", 0.0),
        ("soon", None),
        ("-1", None),
        ("1.5", None),
        ("", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(text: str, seconds: float | None) -> None:
    assert retry_after_s(answer(429, retry_after=text), Clock().chance) == seconds


def test_without_retries_nothing_is_repeated() -> None:
    result, slept = outcomes([TransportError("broke")], None, Clock(), safe=True)
    assert (str(result), slept) == ("broke", [])


def test_many_failures_do_not_overflow() -> None:
    attempts = Attempts(Retry(max_total_s=1e9), Clock(random=0.0).chance)
    assert all(attempts.delay_s() == 0.0 for _ in range(5000))
