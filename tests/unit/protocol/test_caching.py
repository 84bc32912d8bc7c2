"""Entity tags and cache directives: rules G2, G3, G6."""

import itertools

import pytest

from millstream.protocol import caching
from millstream.protocol.caching import NO_STORE, PRIVATE, PUBLIC, encoded_tag, entity_tag, matches
from millstream.protocol.offsets import NOW, START

TAG = entity_tag(b"ff", 0, 10, False)


def test_a_tag_varies_with_identity_start_end_and_closure() -> None:
    """G3."""
    tags = {entity_tag(*which) for which in itertools.product((b"1", b"2"), (0, 1), (10, 11), (False, True))}
    assert len(tags) == 16


@pytest.mark.parametrize(
    ("if_none_match", "hit"),
    [
        (TAG, True),
        (b"W/" + TAG, True),
        (b"*", True),
        (b" * ", True),
        (b'"other", ' + TAG, True),
        (TAG + b',"other"', True),
        (encoded_tag(TAG, b"gzip"), True),
        (b"W/" + encoded_tag(TAG, b"zstd"), True),
        (b'"x", ' + encoded_tag(TAG, b"br"), True),
        (b"", False),
        (b'"other"', False),
        (TAG.strip(b'"'), False),
        (entity_tag(b"ff", 0, 10, True), False),
        (encoded_tag(entity_tag(b"ff", 0, 10, True), b"gzip"), False),
        (entity_tag(b"ff", 0, 11, False), False),
        (entity_tag(b"fe", 0, 10, False), False),
    ],
)
def test_a_client_that_has_the_content_in_any_coding_has_it(if_none_match: bytes, hit: bool) -> None:
    """G3: and a tag never hides EOF behind a 304."""
    assert matches(if_none_match, TAG) is hit


def test_each_coding_has_its_own_tag() -> None:
    """G3: other bytes are another entity."""
    tags = {TAG, *(encoded_tag(TAG, coding) for coding in (b"gzip", b"br", b"zstd", b"deflate"))}
    assert len(tags) == 5
    assert all(tag.startswith(b'"') and tag.endswith(b'"') and tag.count(b'"') == 2 for tag in tags)


def test_cache_directives_are_those_of_the_protocol() -> None:
    """G6."""
    assert PUBLIC == b"public, max-age=60, stale-while-revalidate=300"
    assert PUBLIC.replace(b"public", b"private") == PRIVATE
    assert NO_STORE == b"no-store"


@pytest.mark.parametrize(
    ("by_token", "with_credentials", "allowed"),
    [
        (False, False, caching.PUBLIC),
        (False, True, caching.PRIVATE),
        (True, False, caching.FOR_A_TOKEN),
        (True, True, caching.FOR_A_TOKEN),
    ],
)
def test_what_took_credentials_is_not_for_shared_caches(
    by_token: bool, with_credentials: bool, allowed: bytes
) -> None:
    """G6; and nobody stores the answer to `now` (G2)."""
    assert caching.for_client(by_token, with_credentials) == allowed
    assert caching.for_read(5, allowed) == caching.for_read(START, allowed) == allowed
    assert caching.for_read(NOW, allowed) == caching.NO_STORE
