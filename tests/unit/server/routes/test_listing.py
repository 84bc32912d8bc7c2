"""The listing for callers who may not read everything (rule X2)."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from millstream.protocol.errors import MalformedError
from millstream.protocol.http import Reply
from millstream.protocol.requests import CreateRequest, ListingRequest
from millstream.server.access.grants import EVERYTHING, Grant, parse_scopes
from millstream.server.routes.listing import CursorSeal, Listing
from millstream.store.base import NO_ATTRIBUTES, Page
from millstream.store.memory import MemoryEngine
from millstream.store.table import Table

COUNT = 40


class CountingStore(Table):
    """A store that counts the streams that it gives away."""

    given = 0

    def listing(
        self,
        prefix: str,
        glob: str | None,
        after: str,
        limit: int,
        now_ms: int,
        attributes: Mapping[str, str] = NO_ATTRIBUTES,
    ) -> Page:
        page = super().listing(prefix, glob, after, limit, now_ms, attributes)
        self.given += len(page.streams)
        return page


@pytest.fixture
def store() -> CountingStore:
    store = CountingStore(MemoryEngine())
    for number in range(COUNT):
        store.create(f"/{number:02}", CreateRequest(b"", None, False), 0)
    return store


def page(listing: Listing, grant: Grant, cursor: str, limit: int) -> dict[str, Any]:
    reply = listing.answer(ListingRequest("", "", cursor, limit), grant)
    assert isinstance(reply, Reply)
    assert isinstance(reply.body, bytes)
    found: dict[str, Any] = json.loads(reply.body)
    return found


@pytest.mark.parametrize("limit", [1, 7, 1000])
@pytest.mark.parametrize(("scopes", "most"), [(1, 1000), (100, 100), (1000, 10), (10_001, 1)])
def test_a_page_takes_no_longer_for_a_token_of_many_scopes(
    store: CountingStore, scopes: int, most: int, limit: int
) -> None:
    grant = Grant(parse_scopes(["read:/3*", *["read:/x"] * (scopes - 1)]))
    listing, cursor, found = Listing(store, CursorSeal(), lambda: 0), "", []
    while cursor is not None:
        store.given = 0
        answer = page(listing, grant, cursor, limit)
        assert store.given <= most
        found += [stream["path"] for stream in answer["streams"]]
        cursor = answer["cursor"]
    assert found == [f"/{number}" for number in range(30, 40)]


@pytest.mark.parametrize("limit", [1, 7, 20])
def test_who_may_read_everything_gets_names_as_cursors(store: CountingStore, limit: int) -> None:
    listing = Listing(store, CursorSeal(), lambda: 0)
    answer = page(listing, EVERYTHING, "", limit)
    assert answer["cursor"] == answer["streams"][-1]["path"] == f"/{limit - 1:02}"
    assert store.given == limit


def test_a_cursor_is_sealed_for_one_process() -> None:
    one, other = CursorSeal(), CursorSeal()
    for name in ("/", "/a", "/ä" * 300, "/" + "x" * 1023):
        assert one.unseal(one.seal(name)) == name
        assert one.seal(name) != one.seal(name)
        assert len(one.seal(name)) == len(one.seal("/"))
        with pytest.raises(MalformedError):
            other.unseal(one.seal(name))
    assert one.unseal("/plain") == "/plain"
