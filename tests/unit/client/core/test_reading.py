"""Reading, decided without a server: a script of answers in, requests and pieces out."""

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from millstream import ParseError, Retry, StreamGoneError, TransportError
from millstream.client.core.endpoints import Endpoint
from millstream.client.core.exchanges import Terms
from millstream.client.core.plans.reading import Memory, Reader
from millstream.client.core.retry import Chance
from unit.client.scripted import OFFSETS, Scripted, answer, chunk, collect

EVENTS = answer(200, content_type="text/event-stream")
PATIENT = Retry(initial_delay_s=0.001)


def data(text: str) -> bytes:
    return b"event: data\ndata:%b\n\n" % text.encode()


def control(end: int, extra: str = "") -> bytes:
    return b'event: control\ndata:{"streamNextOffset":"%b"%b}\n\n' % (OFFSETS[end].encode(), extra.encode())


def read(
    *steps: Any, live: Any = False, clock: Any = None, **options: Any
) -> tuple[list[Any], Scripted, Reader]:
    transport = Scripted(*steps)
    chance = Chance(clock) if clock else Chance()
    reader = Reader(Endpoint("http://h/s"), Terms(PATIENT, chance=chance), live=live, **options)
    pieces = collect(reader.plan(), transport)
    assert transport.finished, "the reader asked less than the script expects"
    return pieces, transport, reader


def asked(transport: Scripted) -> list[dict[str, str]]:
    return [{k: v[0] for k, v in parse_qs(urlsplit(r.url).query).items()} for r in transport.asked]


def shown(pieces: list[Any]) -> list[tuple[bytes, str, bool, bool]]:
    return [(piece.data, piece.offset, piece.up_to_date, piece.stream_closed) for piece in pieces]


def test_catching_up_follows_offsets_and_ends_at_the_tail() -> None:
    pieces, transport, reader = read(chunk(b"ab", 2, up_to_date=False), chunk(b"c", 3))
    assert shown(pieces) == [(b"ab", OFFSETS[2], False, False), (b"c", OFFSETS[3], True, False)]
    assert asked(transport) == [{"offset": "-1"}, {"offset": OFFSETS[2]}]
    assert (reader.offset, reader.up_to_date, reader.content_type) == (OFFSETS[3], True, "text/plain")


@pytest.mark.parametrize("live", [False, True, "long-poll"])
def test_eof_ends_everything_without_another_request(live: Any) -> None:
    pieces, transport, _ = read(chunk(b"ab", 2, closed=True), live=live)
    assert shown(pieces) == [(b"ab", OFFSETS[2], True, True)]
    assert len(transport.asked) == 1


def test_a_closed_stream_is_up_to_date_whatever_the_server_says() -> None:
    pieces, _, _ = read(chunk(b"ab", 2, up_to_date=False, closed=True))
    assert shown(pieces)[0][2:] == (True, True)


def test_live_reading_catches_up_first_then_polls_and_echoes_the_cursor() -> None:
    waiting = answer(204, stream_next_offset=OFFSETS[2], stream_up_to_date="true", stream_cursor="7")
    pieces, transport, _ = read(
        chunk(b"ab", 2), waiting, waiting, chunk(b"c", 3, closed=True, stream_cursor="9"), live=True
    )
    assert [piece.data for piece in pieces] == [b"ab", b"c"]
    at_tail = {"live": "long-poll", "offset": OFFSETS[2]}
    assert asked(transport) == [
        {"offset": "-1"},
        at_tail,
        {**at_tail, "cursor": "7"},
        {**at_tail, "cursor": "7"},
    ]


def test_query_parameters_are_sorted() -> None:
    transport = Scripted(chunk(b"", 0, closed=True))
    endpoint = Endpoint("http://h/s?zeta=1&alpha=2", params={"mid": "3"})
    collect(Reader(endpoint, Terms(), live="long-poll", cursor="5").plan(), transport)
    query = urlsplit(transport.asked[0].url).query
    assert query == "alpha=2&cursor=5&live=long-poll&mid=3&offset=-1&zeta=1"


def test_a_long_poll_that_ends_empty_tells_only_the_news() -> None:
    end = answer(204, stream_next_offset=OFFSETS[2], stream_up_to_date="true", stream_closed="true")
    pieces, _, _ = read(chunk(b"ab", 2), end, live=True)
    assert shown(pieces) == [(b"ab", OFFSETS[2], True, False), (b"", OFFSETS[2], True, True)]


def test_a_server_that_does_not_move_does_not_make_us_spin() -> None:
    pieces, _, _ = read(chunk(b"ab", 2, up_to_date=False), chunk(b"", 2, up_to_date=False))
    assert shown(pieces)[-1] == (b"", OFFSETS[2], True, False)


def test_an_answer_without_an_offset_is_no_stream() -> None:
    with pytest.raises(ParseError, match="Stream-Next-Offset"):
        read(answer(200, b"<html>"))


def test_a_read_goes_on_after_failures_from_where_it_was() -> None:
    pieces, transport, _ = read(
        chunk(b"ab", 2, up_to_date=False), TransportError("cut"), answer(503), chunk(b"c", 3)
    )
    assert [piece.data for piece in pieces] == [b"ab", b"c"]
    assert [params["offset"] for params in asked(transport)] == ["-1", OFFSETS[2], OFFSETS[2], OFFSETS[2]]


def test_what_is_gone_is_told_and_not_retried() -> None:
    with pytest.raises(StreamGoneError):
        read(answer(410))


def test_on_error_may_change_headers_and_go_on() -> None:
    def renew(error: Exception) -> Any:
        return {"headers": {"Authorization": "Bearer new"}}

    _, transport, _ = read(answer(401), chunk(b"ab", 2), on_error=renew)
    assert b"authorization" not in transport.asked[0].headers
    assert transport.asked[1].headers[b"authorization"] == b"Bearer new"
    with pytest.raises(StreamGoneError):
        read(answer(410), on_error=lambda error: None)


# -- If-None-Match -------------------------------------------------------------------------------


def test_what_has_not_changed_is_not_sent_again() -> None:
    memory = Memory()
    read(chunk(b"ab", 2, etag='"1"'), memory=memory)
    unchanged = answer(304, stream_next_offset=OFFSETS[2], stream_up_to_date="true", etag='"1"')
    pieces, transport, reader = read(unchanged, memory=memory)
    assert shown(pieces) == [(b"ab", OFFSETS[2], True, False)]
    assert transport.asked[0].headers[b"if-none-match"] == b'"1"'
    assert reader.status == 200


def test_long_polls_do_not_ask_for_what_has_not_changed() -> None:
    memory = Memory()
    read(chunk(b"ab", 2, etag='"1"'), memory=memory)
    _, transport, _ = read(chunk(b"ab", 2, closed=True), live="long-poll", memory=memory)
    assert b"if-none-match" not in transport.asked[0].headers


# -- Server-sent events ----------------------------------------------------------------------------


def test_events_count_when_their_control_event_has_come() -> None:
    body = [
        data("[1]"),
        data("[2]") + control(2),
        control(2, ',"upToDate":true'),
        control(2, ',"streamClosed":true'),
    ]
    pieces, transport, _ = read((EVENTS, body), live="sse")
    assert [(piece.parts, piece.up_to_date, piece.stream_closed) for piece in pieces] == [
        ((b"[1]", b"[2]"), False, False),
        ((), True, False),
        ((), True, True),
    ]
    assert asked(transport) == [{"live": "sse", "offset": "-1"}]


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_events_read_the_same_however_they_arrive(end: str, size: int) -> None:
    whole = (
        data("hello") + control(5) + b": comment\n\n" + data("x") + control(6, ',"streamClosed":true')
    ).replace(b"\n", end.encode())
    pieces, _, _ = read((EVENTS, [whole[i : i + size] for i in range(0, len(whole), size)]), live="sse")
    assert shown(pieces) == [(b"hello", OFFSETS[5], False, False), (b"x", OFFSETS[6], True, True)]


def test_binary_content_is_decoded() -> None:
    head = answer(200, content_type="text/event-stream", stream_sse_data_encoding="base64")
    pieces, _, _ = read((head, [data("/wAB\ndata:Ag=="), control(4, ',"streamClosed":true')]), live="sse")
    assert pieces[0].data == b"\xff\x00\x01\x02"


def test_a_broken_event_stream_resumes_after_the_last_control_event() -> None:
    ticks = iter(range(0, 1000, 2))  # every connection lives two seconds
    pieces, transport, _ = read(
        (EVENTS, [data("ab") + control(2, ',"streamCursor":"7"'), data("lost"), TransportError("cut")]),
        (EVENTS, [data("c") + control(3, ',"streamClosed":true')]),
        live="sse",
        clock=lambda: float(next(ticks)),
    )
    assert [piece.data for piece in pieces] == [b"ab", b"c"]
    assert asked(transport)[1] == {"cursor": "7", "live": "sse", "offset": OFFSETS[2]}


def test_event_streams_that_die_young_three_times_give_way_to_long_polls() -> None:
    dead = (EVENTS, [control(0, ',"upToDate":true')])
    _, transport, _ = read(dead, dead, dead, chunk(b"ab", 2, closed=True), live="sse")
    assert [params["live"] for params in asked(transport)] == ["sse", "sse", "sse", "long-poll"]


def test_an_event_stream_that_lived_forgives_the_young_deaths() -> None:
    lives = iter([0, 0, 5, 0, 0, 0])
    now = 0.0

    def clock() -> float:
        return now

    class Aging(Scripted):
        def open(self, request: Any, scope: Any = None) -> Any:
            nonlocal now
            opened = super().open(request, scope)
            now += next(lives)
            return opened

    dead = (EVENTS, [control(0, ',"upToDate":true')])
    transport = Aging(dead, dead, dead, dead, dead, dead, chunk(b"ab", 2, closed=True))
    reader = Reader(Endpoint("http://h/s"), Terms(PATIENT, chance=Chance(clock)), live="sse")
    collect(reader.plan(), transport)
    assert [params["live"] for params in asked(transport)] == ["sse"] * 6 + ["long-poll"]


def test_an_answer_that_is_no_event_stream_gives_way_at_once() -> None:
    _, transport, _ = read(
        answer(200, b"hi", content_type="text/html"), chunk(b"ab", 2, closed=True), live="sse"
    )
    assert [params.get("live") for params in asked(transport)] == ["sse", None]


@pytest.mark.parametrize("bad", ["{", "", '{"streamNextOffset":5}', "{}", "[]"])
def test_a_control_event_that_cannot_be_read_is_an_error(bad: str) -> None:
    with pytest.raises(ParseError):
        read((EVENTS, [b"event: control\ndata:%b\n\n" % bad.encode()]), live="sse")


def test_base64_that_is_none_is_an_error() -> None:
    head = answer(200, content_type="text/event-stream", stream_sse_data_encoding="base64")
    with pytest.raises(ParseError):
        read((head, [data("!!!"), control(1)]), live="sse")


def test_unknown_events_are_passed_over() -> None:
    body = [b"event: surprise\ndata:x\n\n", data("ab"), control(2, ',"streamClosed":true,"new":1')]
    pieces, _, _ = read((EVENTS, body), live="sse")
    assert [piece.data for piece in pieces] == [b"ab"]


@pytest.mark.parametrize("live", ["auto", "yes", 5])
def test_live_is_one_of_four(live: Any) -> None:
    with pytest.raises(ValueError, match="live is"):
        Reader(Endpoint("http://h/s"), Terms(), live=live)
