"""Which request follows a redirect."""

import pytest

from millstream.client.core.redirects import redirected
from millstream.client.core.transport import Answer, Request


def follow(url: str, location: str, status: int = 307) -> Request | None:
    request = Request(b"POST", url, {b"authorization": b"secret", b"stream-seq": b"1"}, b"body")
    return redirected(request, Answer(status, {b"location": location.encode()}), 0)


@pytest.mark.parametrize(
    ("url", "location", "goes_to", "with_token"),
    [
        ("http://h/a?x=1", "/b", "http://h/b", True),
        ("http://h/a/b", "c?y=2", "http://h/a/c?y=2", True),
        ("https://h/a", "https://h:444/a", "https://h:444/a", False),
        ("http://h/a", "https://h/a", "https://h/a", False),
        ("http://h/a", "//other/a", "http://other/a", False),
        ("https://h/a", "http://h/a", None, False),
        ("https://h/a", "//user@h/a", "https://user@h/a", False),
        ("http://h/a", "ftp://h/a", None, False),
    ],
)
def test_where_a_request_goes_and_with_what(
    url: str, location: str, goes_to: str | None, with_token: bool
) -> None:
    onward = follow(url, location)
    if onward is None:
        assert goes_to is None
        return
    assert (onward.url, onward.method, onward.body) == (goes_to, b"POST", b"body")
    assert (b"authorization" in onward.headers) is with_token
    assert onward.headers[b"stream-seq"] == b"1"


def test_a_redirect_to_nowhere_is_final() -> None:
    assert redirected(Request(b"GET", "http://h/a", {}), Answer(307, {}), 0) is None
    assert follow("http://h/a", "/b", 302) is None
    assert follow("http://h/a", "/b", 303) is None
