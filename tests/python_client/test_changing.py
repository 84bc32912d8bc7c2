"""Changing what lives with both shells: rule X10."""

from typing import Any

import pytest

from millstream import BadRequestError, StreamGoneError, StreamNotFoundError

TEXT = "text/plain"


def test_a_stream_is_changed_and_described(shell: Any, url: str) -> None:
    """None removes, what is not given stays."""
    log = shell.DurableStream.create(url, content_type=TEXT, attributes={"team": "a", "tier": 1})
    assert log.head().attributes == {"team": "a", "tier": 1}
    found = log.configure(ttl_seconds=3600, retain_bytes=1000, attributes={"tier": None, "owner": "\u00e4"})
    assert (found.ttl_seconds, found.retain_bytes, found.content_type) == (3600, 1000, TEXT)
    assert found.attributes == {"team": "a", "owner": "\u00e4"}
    found = log.configure(expires_at="2099-01-01T00:00:00Z", retain_seconds=60)
    assert (found.ttl_seconds, found.expires_at) == (None, "2099-01-01T00:00:00Z")
    assert (found.retain_bytes, found.retain_seconds) == (1000, 60)
    found = log.configure(expires_at=None, retain_bytes=None, retain_seconds=None)
    assert (found.expires_at, found.retain_bytes, found.retain_seconds) == (None, None, None)
    assert log.configure() == found
    again = log.head()
    assert (again.ttl_seconds, again.expires_at, again.attributes) == (None, None, found.attributes)
    assert again.incarnation == found.incarnation


def test_a_change_that_is_refused_says_why(shell: Any, url: str) -> None:
    log = shell.DurableStream(url)
    with pytest.raises(StreamNotFoundError):
        log.configure(ttl_seconds=1)
    log = shell.DurableStream.create(url)
    with pytest.raises(BadRequestError, match="not both"):
        log.configure(ttl_seconds=1, expires_at="2099-01-01T00:00:00Z")
    with pytest.raises(BadRequestError, match="4096"):
        log.configure(attributes={"a": "x" * 5000})
    with pytest.raises(ValueError, match="JSON"):
        log.configure(attributes={"a": float("nan")})


def test_a_stream_is_trimmed(shell: Any, url: str) -> None:
    log = shell.DurableStream.create(url, content_type=TEXT)
    offsets = [log.append(f"{number:010}").next_offset for number in range(3)]
    trimmed = log.trim(before=offsets[0])
    assert (trimmed.earliest_offset, trimmed.next_offset) == (offsets[0], offsets[2])
    assert log.stream(live=False).read_text() == f"{1:010}{2:010}"
    with pytest.raises(StreamGoneError) as gone:
        shell.stream(url, offset=log.create(url + "-start").head().offset, live=False)
    assert gone.value.earliest_offset == offsets[0]
    assert log.trim(before="now").earliest_offset == offsets[2]
    assert log.trim(before="-1").earliest_offset == offsets[2]
    assert log.stream(live=False).read_text() == ""
    with pytest.raises(BadRequestError, match="ends at"):
        log.trim(before="0000000000000000_0000000000000099")


def test_a_reader_sees_that_a_stream_was_made_anew(shell: Any, url: str) -> None:
    """Its incarnation differs, and what it has kept of the former one is not used."""
    log = shell.DurableStream.create(url, content_type=TEXT, body="same")
    first = log.stream(live=False)
    assert first.read_text() == "same"
    assert first.incarnation == log.head().incarnation is not None
    log.delete()
    shell.DurableStream.create(url, content_type=TEXT, body="SAME")
    second = log.stream(live=False)
    assert second.read_text() == "SAME"
    assert second.incarnation != first.incarnation


def test_types_that_end_in_json_hold_messages(shell: Any, url: str) -> None:
    events = shell.DurableStream.create(url, content_type="application/cloudevents+json")
    events.append({"id": 1})
    events.append([2])
    assert events.stream(live=False).read_json() == [{"id": 1}, [2]]


def test_a_long_poll_waits_no_longer_than_wanted(shell: Any, url: str) -> None:
    """The server's own would take far longer than the test: each poll ends, and the next one begins."""
    log = shell.DurableStream.create(url, content_type=TEXT)
    with log.stream(offset="now", live="long-poll", poll_timeout=0.01) as response:
        chunks = response.iter_text_chunks()
        assert next(chunks).up_to_date
        log.close("bye")
        assert "".join(chunk.data for chunk in chunks) == "bye"
