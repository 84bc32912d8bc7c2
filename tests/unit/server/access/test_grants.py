"""Grants: what a token allows on a stream, and on any."""

import pytest

from millstream.server.access.grants import EVERYTHING, Access, Grant, access_of, parse_scopes


@pytest.mark.parametrize(
    ("scopes", "name", "read", "write", "admin"),
    [
        ("read:/chat/*", "/chat/1", True, False, False),
        ("read:/chat/* write:/chat/1", "/chat/1", True, True, False),
        ("read:/chat/* write:/chat/1", "/chat/2", True, False, False),
        ("read:/chat/* write:/chat/1", None, True, True, False),
        ("read:/chat/*", None, True, False, False),
        ("admin", "/any", True, True, True),
        ("admin:/mine/**", "/mine/1", True, True, False),
        ("", None, False, False, False),
    ],
)
def test_access_is_what_the_scopes_cover(
    scopes: str, name: str | None, read: bool, write: bool, admin: bool
) -> None:
    assert access_of(Grant(parse_scopes(scopes)), name) == Access(name, read, write, admin, None)


def test_access_ends_when_the_token_does() -> None:
    assert access_of(Grant(parse_scopes("read"), 1_900_000_000.25), None).expires_ms == 1_900_000_000_250


def test_a_server_without_tokens_allows_everything() -> None:
    assert access_of(EVERYTHING, "/s") == Access("/s", True, True, True, None)
