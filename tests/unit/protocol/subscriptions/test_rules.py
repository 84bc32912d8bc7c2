"""Rules of subscriptions that need no store: S1, S2, S4."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.protocol import problems
from millstream.protocol.errors import MalformedError
from millstream.protocol.subscriptions import retries, wakes
from millstream.protocol.subscriptions.configurations import parse_configuration, parse_path
from millstream.protocol.subscriptions.problems import as_error
from millstream.protocol.subscriptions.requests import parse_settling, parse_target
from millstream.protocol.subscriptions.states import Subscription
from millstream.protocol.subscriptions.tokens import Claim, read_claim, sign_claim

PULL = b'{"type": "pull-wake", "pattern": "a/*", "wake_stream": "w"}'


def subscription(lease_ttl_ms: int = 1000) -> Subscription:
    body = b'{"type": "webhook", "pattern": "a", "webhook": {"url": "x"}, "lease_ttl_ms": %d}' % lease_ttl_ms
    return Subscription("s", "/", parse_configuration(body, "/"), "", 0)


@given(st.integers(1, 10_000), st.floats(0, 1))
def test_retries_wait_from_a_second_to_a_minute_with_a_fifth_of_jitter(failures: int, chance: float) -> None:
    """S1."""
    base_ms = min(60_000, 1000 * 2 ** (failures - 1))
    assert 0.8 * base_ms - 1 <= retries.delay_ms(failures, chance) <= 1.2 * base_ms + 1


def test_the_first_retries_double() -> None:
    """S1."""
    assert [retries.delay_ms(n, 0.5) for n in range(1, 9)] == [
        1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000,
    ]  # fmt: skip


def test_requests_that_mean_the_same_have_the_same_hash() -> None:
    """S1."""
    first = parse_configuration(b'{"type":"pull-wake","streams":["b","/a","a"],"wake_stream":"/w"}', "/")
    second = parse_configuration(
        b'{"wake_stream":"w","webhook":{"url":"x"},"streams":["a","b"],"type":"pull-wake","pattern":null,'
        b'"lease_ttl_ms":30000,"description":null,"more":1}',
        "/",
    )
    assert first.hash == second.hash
    for other in (PULL, PULL.replace(b"a/*", b"a/**"), PULL.replace(b"}", b', "description": "x"}')):
        assert parse_configuration(other, "/").hash != first.hash


@pytest.mark.parametrize(
    "body",
    [
        b'{"type": "pull-wake", "pattern": "", "wake_stream": "w"}',
        b'{"type": "pull-wake", "pattern": 5, "wake_stream": "w"}',
        b'{"type": "pull-wake", "streams": ["w"], "wake_stream": "w"}',
        b'{"type": "pull-wake", "streams": ["a/../b"], "wake_stream": "w"}',
        b'{"type": "pull-wake", "streams": ["__ds/x"], "wake_stream": "w"}',
        b'{"type": "pull-wake", "streams": ["\\ud800"], "wake_stream": "w"}',
        b'{"type": "pull-wake", "streams": [1], "wake_stream": "w"}',
        b'{"type": "pull-wake", "pattern": "a", "wake_stream": "w", "lease_ttl_ms": true}',
        b'{"type": "pull-wake", "pattern": "a", "wake_stream": "w", "description": 5}',
        b'{"type": "webhook", "pattern": "a", "webhook": "https://x.example"}',
        b"[" * 100_000,
    ],
)
def test_a_wrong_configuration_is_refused(body: bytes) -> None:
    """S4."""
    with pytest.raises(MalformedError):
        parse_configuration(body, "/")


def test_paths_are_below_their_root() -> None:
    """S1."""
    assert parse_path("//events/a", "/v1/stream/") == "/v1/stream/events/a"
    assert parse_target("subscriptions/s/streams/a/b") is not None
    assert parse_target("subscriptions/s/streams/a/b").path == "a/b"  # type: ignore[union-attr]
    assert parse_target("subscriptions/s/else") is None
    assert parse_target("subscriptions/s/claim/x") is None
    assert parse_target("subscriptions/") is None


@pytest.mark.parametrize(
    "offset", ['"-1"', '"now"', '"x"', "5", "null", '"0000000000000000_00000000000000a1"']
)
def test_an_offset_that_was_never_given_is_no_ack(offset: str) -> None:
    """S4."""
    body = b'{"wake_id":"w","generation":1,"acks":[{"stream":"a","offset":%b}]}' % offset.encode()
    with pytest.raises(MalformedError) as wrong:
        parse_settling(body, "/")
    assert wrong.value.code == "INVALID_OFFSET"


@given(st.text(), st.binary(min_size=1, max_size=64))
def test_only_our_own_tokens_are_read(text: str, key: bytes) -> None:
    """S4."""
    assert read_claim(text, key) is None
    claim = Claim("/s", 7, "w_x")
    token = sign_claim(claim, key)
    assert read_claim(token, key) == claim
    assert read_claim(token, key + b"x") is None
    for place in range(len(token)):
        forged = token[:place] + ("A" if token[place] != "A" else "B") + token[place + 1 :]
        assert read_claim(forged, key) in (None, claim)  # the last bits of base64 mean nothing


def test_a_clock_that_is_set_back_makes_nothing_longer() -> None:
    """S1."""
    woken = wakes.begin_attempt(wakes.issue(subscription(), "w", "/a", 10**9), "x", 10**9)
    failed = wakes.fail(woken, "no", 10**9, 1.0)
    rebased = wakes.rebase(failed, 5000)
    assert rebased.wake is not None
    assert rebased.wake.lease_until_ms == 6000
    assert rebased.next_attempt_ms is not None
    assert rebased.next_attempt_ms <= 5000 + 72_000
    assert wakes.rebase(rebased, 5000) is rebased


def test_an_attempt_after_the_lease_has_another_generation() -> None:
    """S1: whoever has the former one is fenced."""
    first = wakes.begin_attempt(wakes.issue(subscription(), "w1", "/a", 0), "w2", 0)
    soon = wakes.begin_attempt(first, "w3", 999)
    late = wakes.begin_attempt(first, "w4", 1000)
    assert (soon.generation, soon.wake.id if soon.wake else "") == (1, "w1")
    assert (late.generation, late.wake.id if late.wake else "") == (2, "w4")


def test_refusals_of_any_kind_have_the_form_of_these_routes() -> None:
    """S4."""
    found = as_error(problems.missing_token("a <token>"))
    assert found.status == 401
    assert b'"error":{"code":"MISSING_TOKEN"' in bytes(found.body)  # type: ignore[arg-type]
    assert b"<" not in bytes(found.body)  # type: ignore[arg-type]
    assert problems.CHALLENGE in found.headers
