"""What goes along with every request."""

import asyncio
from itertools import count
from typing import Any

import pytest

from millstream import DurableStream, aio
from millstream.client.core.endpoints import Ask, Endpoint
from unit.client.scripted import AsyncScripted, Scripted, answer

OK = answer(200, stream_next_offset="1", content_type="text/plain")
BUSY = answer(503, retry_after="0")


def test_functions_are_called_for_each_request_repeated_ones_too() -> None:
    numbers = count(1)
    transport = Scripted(BUSY, OK, OK)
    stream = DurableStream(
        "http://h/s",
        headers={"X-Count": lambda: str(next(numbers)), "X-Fixed": "f"},
        params=lambda: {"token": f"t{next(numbers)}", "none": None},
        client=transport,
    )
    stream.head()
    stream.head()
    assert [request.headers[b"x-count"] for request in transport.asked] == [b"1", b"3", b"5"]
    assert [request.url for request in transport.asked] == [f"http://h/s?token=t{n}" for n in (2, 4, 6)]
    assert {request.headers[b"x-fixed"] for request in transport.asked} == {b"f"}


def test_coroutine_functions_are_awaited_in_the_async_shell() -> None:
    async def token() -> str:
        await asyncio.sleep(0)
        return "Bearer async"

    async def all_headers() -> dict[str, str]:
        return {"X-All": "1"}

    async def go() -> None:
        transport = AsyncScripted(OK, OK)
        await aio.DurableStream("http://h/s", headers={"Authorization": token}, client=transport).head()
        await aio.DurableStream("http://h/s", headers=all_headers, client=transport).head()
        assert transport.asked[0].headers[b"authorization"] == b"Bearer async"
        assert transport.asked[1].headers[b"x-all"] == b"1"

    asyncio.run(go())


def test_coroutine_functions_are_refused_in_the_sync_shell() -> None:
    async def token() -> str:
        return "never"

    with pytest.raises(TypeError, match=r"millstream\.aio"):
        DurableStream("http://h/s", headers={"Authorization": token}, client=Scripted(OK)).head()


def test_the_protocols_parameters_win_and_the_urls_own_are_kept() -> None:
    endpoint = Endpoint("http://h/s?offset=5&key=a%20b", params={"live": "no", "ü": "&"})
    request = endpoint.request(Ask(b"GET", params=(("offset", "-1"),)))
    assert request.url == "http://h/s?key=a%20b&live=no&offset=-1&%C3%BC=%26"


def test_none_leaves_a_parameter_out() -> None:
    assert Endpoint("http://h/s?a=1&b=2", params={"a": None}).request(Ask(b"GET")).url == "http://h/s?b=2"


def test_changes_replace_functions() -> None:
    changed = Endpoint("http://h/s", {"A": lambda: "old"}).changed(
        {"headers": {"A": "new"}, "params": {"p": "1"}}
    )
    request = changed.request(Ask(b"GET"), [function() for function in changed.computed])
    assert (request.headers, request.url) == ({b"a": b"new"}, "http://h/s?p=1")


@pytest.mark.parametrize("url", ["", "/path", "ftp://h/s", "h/s", "http:///s"])
def test_a_stream_is_at_an_http_url(url: Any) -> None:
    with pytest.raises(ValueError, match="begins with http"):
        Endpoint(url)
